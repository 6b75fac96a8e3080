"""What the text of one robots.txt allows us (pure)."""

import re
from typing import Final

from protego import Protego

EVERYTHING_ALLOWED: Final = ""
"""The text of a robots.txt without rules."""

MAX_DELAY_MS: Final = 300_000
"""Longest Crawl-delay that is honoured; longer ones would stop a crawl."""

_TOKEN: Final = re.compile(r"[A-Za-z_-]+")
_AGENT_LINE: Final = re.compile(r"^\s*user[- ]?agent\b\s*:?([^#]*)", re.IGNORECASE)
# No product token contains it.
_SOMEBODY_ELSE: Final = "User-agent: !"


def product_token(user_agent: str) -> str:
    """The name by which robots.txt knows a crawler that sends *user_agent*.

    Raises:
        ValueError: When it does not begin with letters, `-` or `_`.
    """
    match = _TOKEN.match(user_agent)
    if match is None:
        raise ValueError(
            f"user_agent must begin with a product token of letters, '-' and '_', such as "
            f"'crawl-actors/1.0', not {user_agent!r}"
        )
    return match[0]


class RobotsRules:
    """The rules of *text* for the crawler called *token*."""

    def __init__(self, text: str, *, token: str) -> None:
        self._token = token
        self._protego = Protego.parse(_without_others(text, token.lower()))

    def allow(self, url: str) -> bool:
        """True when *url* may be fetched; the longest rule that matches decides."""
        return self._protego.can_fetch(url, self._token)

    @property
    def delay_ms(self) -> int | None:
        """The Crawl-delay, `MAX_DELAY_MS` at most; None without one."""
        seconds = self._protego.crawl_delay(self._token)
        # Older Protegos let "nan" and negative numbers through.
        if seconds is None or not seconds >= 0:
            return None
        return int(min(seconds * 1000, MAX_DELAY_MS))


def _without_others(text: str, token: str) -> str:
    """*text* with all crawlers that are not us under one name.

    Protego keeps every rule once for each of the group's crawlers: a file of many names and many
    rules would keep a worker busy for minutes.
    """
    return "\n".join(_line(line, token) for line in text.splitlines())


def _line(line: str, token: str) -> str:
    match = _AGENT_LINE.match(line)
    if match is None:
        return line
    name = match[1].strip().lower()
    is_ours = name == "*" or name.replace("*", "") in token
    return line if is_ours else _SOMEBODY_ELSE
