"""The normal form of a URL, and the site it belongs to (pure).

One page has one name: two spellings that every server must treat alike become the same string.
Spellings that a server may tell apart stay apart: the order of query parameters, a trailing slash,
`index.html`, upper and lower case in paths.
"""

import re
from typing import Final

from ada_url import URL

MAX_URL_LENGTH: Final = 2083
"""Longest normal form, in characters; longer ones are traps far more often than pages."""

_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})?")


def canonical_url(url: str, base: str | None = None) -> str | None:
    """The absolute normal form of *url*, read as browsers read it.

    White space around and inside, backslashes, dot segments, default ports, the case of the host
    and international names follow the WHATWG standard. The fragment, the user name and password
    and an empty query are dropped. Escapes are upper-case, those of unreserved characters (RFC
    3986) are decoded, and a `%` that starts no escape is written `%25`. Never raises.

    Args:
        url: Any text, absolute or relative to *base*.
        base: What a relative *url* starts from; one that is no URL itself is ignored.

    Returns:
        None when it is not a valid http or https URL, or longer than `MAX_URL_LENGTH`.
    """
    parsed = _parse(url, base)
    if parsed is None or parsed.protocol not in ("http:", "https:"):
        return None
    rest = _ESCAPE.sub(_normal_escape, parsed.pathname + parsed.search)
    canonical = f"{parsed.protocol}//{parsed.host}{rest}"
    return canonical if len(canonical) <= MAX_URL_LENGTH else None


def has_credentials(url: str) -> bool:
    """True when *url* is absolute and has a user name or password, which `canonical_url` drops."""
    parsed = _parse(url, None)
    return parsed is not None and bool(parsed.username or parsed.password)


def site_of(url: str) -> str:
    """The site of *url*: `scheme://host`, with `:port` when it is not the scheme's default.

    Raises:
        ValueError: When *url* is not a valid http or https URL.
    """
    canonical = canonical_url(url)
    if canonical is None:
        raise ValueError(f"not an http or https URL: {url!r}")
    return canonical[: canonical.index("/", len("https://"))]


def _parse(url: str, base: str | None) -> URL | None:
    if base is not None:
        try:
            return URL(url, base)
        except ValueError:
            # A page with a broken base still has working absolute links.
            return _parse(url, None)
    try:
        return URL(url)
    except ValueError:
        return None


def _normal_escape(match: re.Match[str]) -> str:
    if match[1] is None:
        return "%25"
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else match[0].upper()
