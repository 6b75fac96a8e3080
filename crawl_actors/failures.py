"""Which kind of trouble an exception of requests, or from below it, stands for (pure)."""

import http.client
import socket
import ssl
from collections.abc import Iterator
from typing import Final

import requests
import urllib3.exceptions as urllib3_errors

from crawl_actors.decoding import BrokenEncoding, TruncatedBody

FAILURES: Final = (
    requests.RequestException,
    urllib3_errors.HTTPError,
    http.client.HTTPException,
    OSError,
    UnicodeError,
    BrokenEncoding,
    TruncatedBody,
)
"""All that a request may raise because of the network, the server or the URL."""

_UNKNOWN_HOST: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)})
_MAX_TEXT: Final = 500

# The first line that fits any exception in the chain decides: the specific ones come first.
# (NewConnectionError is also a kind of urllib3's TimeoutError.)
_KINDS: Final[tuple[tuple[str, tuple[type[BaseException], ...]], ...]] = (
    ("encoding", (BrokenEncoding,)),
    ("dns", (socket.gaierror, urllib3_errors.NameResolutionError)),
    ("connect", (urllib3_errors.NewConnectionError,)),
    ("timeout", (TimeoutError, urllib3_errors.TimeoutError, requests.Timeout)),
    ("disconnected", (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError, TruncatedBody)),
    ("tls", (ssl.SSLError, urllib3_errors.SSLError, requests.exceptions.SSLError)),
    ("invalid_url", (requests.exceptions.InvalidURL, http.client.InvalidURL)),
    ("disconnected", (http.client.IncompleteRead,)),
)


def kind_of(error: BaseException) -> str:
    """The kind of *error*, one of those that `Page` lists; `protocol` when nothing else fits."""
    chain = list(_chain(error))
    if any(_is_unknown_host(link) for link in chain):
        return "unknown_host"
    if any(isinstance(link, urllib3_errors.InvalidChunkLength) and link.length for link in chain):
        return "protocol"
    # urllib3 has no type for a chunked body whose connection was closed between two chunks.
    if any("ended prematurely" in str(link) for link in chain):
        return "disconnected"
    for kind, types in _KINDS:
        if any(isinstance(link, types) for link in chain):
            return kind
    return "protocol"


def _is_unknown_host(link: BaseException) -> bool:
    if isinstance(link, urllib3_errors.NameResolutionError):
        # The name has a label that is too long to exist.
        return isinstance(link.__cause__, UnicodeError)
    return isinstance(link, socket.gaierror) and link.errno in _UNKNOWN_HOST


def describe(error: BaseException) -> str:
    """One line about *error*: the innermost exception says most."""
    innermost = list(_chain(error))[-1]
    text = " ".join(f"{type(innermost).__name__}: {innermost}".split())
    return text.encode("utf-8", "replace").decode("utf-8")[:_MAX_TEXT]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """*error* and what it wraps, in any of the ways libraries have of wrapping."""
    seen: set[int] = set()
    pending = [error]
    while pending:
        link = pending.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        wrapped = (getattr(link, "reason", None), *link.args, link.__cause__)
        pending += [one for one in wrapped if isinstance(one, BaseException)]
