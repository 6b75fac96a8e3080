"""What an `embedded://PATH` URL means (pure, but for the current directory and the home)."""

from __future__ import annotations

import os
from urllib.parse import unquote

SCHEME = "embedded://"

_ALLOWED = (
    "allowed is embedded://PATH, where PATH is relative (embedded://data/queue), "
    "absolute (embedded:///var/lib/queue) or in a home directory (embedded://~/queue)"
)


def directory_of(url: str) -> str:
    """The absolute directory that *url* names.

    A relative path starts at the current directory, `~` is expanded and percent-encoded
    characters are decoded. Nothing is looked up on the disk.

    Raises:
        ValueError: When *url* is anything else than `embedded://PATH`.
    """
    if not url.lower().startswith(SCHEME):
        raise ValueError(f"not an embedded URL: {url!r}; {_ALLOWED}")
    encoded = url[len(SCHEME) :]
    for mark, name in (("?", "a query string"), ("#", "a fragment")):
        if mark in encoded:
            value = mark + encoded.partition(mark)[2]
            raise ValueError(
                f"an embedded URL takes no options, but {url!r} has {name}: {value!r} "
                f"(a path with {mark!r} in it is written with %{ord(mark):02X})"
            )
    return _absolute(_decoded(encoded, url=url), url=url)


def _decoded(encoded: str, *, url: str) -> str:
    try:
        path = unquote(encoded, errors="strict")
    except UnicodeDecodeError as error:
        raise ValueError(f"the path in {url!r} is not percent-encoded UTF-8: {error}") from error
    if "\0" in path:
        raise ValueError(f"the path in {url!r} has a zero byte, which no file name can have")
    return path


def _absolute(path: str, *, url: str) -> str:
    if not path.strip():
        raise ValueError(f"{url!r} names no directory; {_ALLOWED}")
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        user = expanded.partition("/")[0]
        raise ValueError(
            f"{url!r} starts in the home of {user!r}, which is not known here "
            f"(a directory of that name is written embedded://./{path})"
        )
    absolute = os.path.abspath(expanded)
    if not absolute.strip("/"):
        raise ValueError(f"{url!r} names the root directory; name a directory of its own")
    return absolute
