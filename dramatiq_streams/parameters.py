"""What connections are made with, checked before any is opened (pure).

redis-py takes nearly any value, and fails with an error of its own, or of the socket's, when it
connects: in the first `send`, or in a worker.
"""

from __future__ import annotations

import codecs
import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from .errors import InvalidOption

Check = Callable[[Any], bool]

#: Servers are configured with 16 unless told otherwise; more than this none can have.
MOST_DATABASES = 2**31
_CLIENT_NAME = re.compile(r"[!-~]+\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_AS_PERCENT = "a character of a password that means something in a URL is written as %XX"


def checked_parameters(parameters: Mapping[str, Any]) -> None:
    """Refuse a value that no connection can be made with.

    Raises:
        InvalidOption: Naming the option and what is allowed; a password is not shown.
    """
    for name in parameters.keys() & _CHECKS.keys():
        is_possible, allowed = _CHECKS[name]
        value = parameters[name]
        if value is not None and not is_possible(value):
            raise InvalidOption.of(name, "***" if "password" in name else value, allowed)


def checked_url(url: str) -> None:
    """Refuse a `redis://`, `rediss://` or `unix://` URL that redis-py would understand wrongly.

    Raises:
        ValueError: Saying what is wrong. No password is shown.
    """
    if _CONTROL.search(url):
        raise ValueError("it has a line break or another control character")
    parts = urlsplit(url)
    if parts.fragment or "#" in url:
        raise ValueError(f"it has a '#': {_AS_PERCENT}")
    for text in (parts.netloc, parts.path):
        _decoded(text)
    pairs = parse_qsl(
        parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict"
    )
    if empty := [name for name, value in pairs if not value]:
        raise ValueError(f"its query parameter {empty[0]!r} has no value")
    if parts.scheme == "unix":
        if parts.hostname or not parts.path.strip("/"):
            raise ValueError("a socket is named by its whole path, as in unix:///run/redis.sock")
    else:
        _check_port(parts)
        if not re.fullmatch(r"/?[0-9]*", parts.path):
            raise ValueError("behind the host there may be nothing but the number of a database")


def _check_port(parts: SplitResult) -> None:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"the port must be a number from 1 to 65535; {_AS_PERCENT}")


def _decoded(text: str) -> None:
    try:
        unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("what is percent-encoded in it is not UTF-8") from None


def _is_number_in(least: int, most: int) -> Check:
    def is_possible(value: Any) -> bool:
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
            value = int(value)
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return is_possible


def _is_host(value: Any) -> bool:
    if not isinstance(value, str) or not value or re.search(r"[\s\x00-\x1f\x7f]", value):
        return False
    with suppress(UnicodeError):
        return bool(value.encode("idna"))
    return False


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value and _is_text(value)


def _is_text(value: Any) -> bool:
    if isinstance(value, str):
        with suppress(UnicodeError):
            return isinstance(value.encode(), bytes)
    return isinstance(value, bytes)


def _is_client_name(value: Any) -> bool:
    return isinstance(value, str) and bool(_CLIENT_NAME.match(value))


def _is_seconds(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < 10**9


def _is_known(find: Callable[[Any], object]) -> Check:
    def is_possible(value: Any) -> bool:
        with suppress(LookupError, TypeError, ValueError):
            return bool(find(value))
        return False

    return is_possible


def _has(name: str) -> Check:
    return lambda value: callable(getattr(value, name, None))


_FILE = (_is_path, "the path of a file")
_TEXT = (_is_text, "text")
_CHECKS: Mapping[str, tuple[Check, str]] = {
    "host": (_is_host, "the name or the address of a host"),
    "port": (_is_number_in(1, 65_535), "a number from 1 to 65535"),
    "db": (_is_number_in(0, MOST_DATABASES - 1), "the number of a database, 0 or more"),
    "path": (_is_path, "the path of a socket"),
    "username": _TEXT,
    "password": _TEXT,
    "client_name": (_is_client_name, "text without spaces"),
    "health_check_interval": (_is_seconds, "seconds, 0 or more"),
    "socket_read_size": (_is_number_in(1, 2**30), "a number of bytes from 1 to 2**30"),
    "encoding": (_is_known(codecs.lookup), "an encoding that Python knows"),
    "encoding_errors": (_is_known(codecs.lookup_error), "an error handler that Python knows"),
    "redis_connect_func": (callable, "a function"),
    "credential_provider": (_has("get_credentials"), "a redis.CredentialProvider"),
    "ssl_keyfile": _FILE,
    "ssl_certfile": _FILE,
    "ssl_ca_certs": _FILE,
    "ssl_ca_path": _FILE,
    "ssl_ca_data": _TEXT,
    "ssl_password": _TEXT,
    "ssl_ciphers": _TEXT,
    "ssl_min_version": (_is_known(ssl.TLSVersion), "an ssl.TLSVersion"),
}
