"""What robots.txt allows (RFC 9309), cached per site for all workers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import redis

from crawl_actors.pages import Page

MAX_ROBOTS_BYTES: Final = 500 * 1024
"""How much of a robots.txt is read; rules beyond it do not count."""


def robots_key(namespace: str, site: str) -> str:
    """The key of *site*'s cached robots.txt."""
    return f"{{{namespace}:robots:{site}}}"


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """What a site's robots.txt says about one URL.

    *delay_ms* is its Crawl-delay. *unavailable*: the rules could not be read (server error or
    unreachable), so nothing is allowed for now; ask again in a minute.
    """

    allowed: bool
    delay_ms: int | None = None
    unavailable: bool = False


class Robots:
    """Answers whether a URL may be fetched.

    Args:
        client: Redis, `decode_responses=False`.
        namespace: First part of the keys.
        user_agent: The header sent; its product token is what the rules are looked up by.
        fetch: Makes one request. It should read `MAX_ROBOTS_BYTES` at least.
    """

    def __init__(
        self,
        client: "redis.Redis",
        *,
        namespace: str,
        user_agent: str,
        fetch: Callable[[str], Page],
    ) -> None:
        raise NotImplementedError

    def check(self, url: str) -> RobotsAnswer:
        """What robots.txt of *url*'s site says about *url*.

        Raises:
            ValueError: When *url* is not a valid http or https URL.
            ConnectionClosed: When Redis cannot be reached.
        """
        raise NotImplementedError
