"""What connections are made with, checked before any is opened (pure).

redis-py takes nearly any value, and fails with an error of its own, or of the socket's, when it
connects: in the first `send`, or in a worker.
"""

from __future__ import annotations

import codecs
import inspect
import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redis import Redis

from .errors import InvalidOption

Check = Callable[[Any], bool]

#: Servers are configured with 16 unless told otherwise; more than this none can have.
MOST_DATABASES = 2**31
#: Some are objects without a meaning of their own.
_DEFAULTS = {name: found.default for name, found in inspect.signature(Redis).parameters.items()}
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
        is_default = value is None or value is _DEFAULTS.get(name)
        if not is_default and not is_possible(value):
            raise InvalidOption.of(name, "***" if "password" in name else value, allowed)


def refuse_senseless(parameters: Mapping[str, Any]) -> None:
    """Refuse an option of `redis.Redis` that has no meaning here, or would connect at once.

    Raises:
        InvalidOption: Naming the option, and why.
    """
    for name, reason in _SENSELESS.items():
        value = parameters.get(name)
        if value is not None and value is not False:
            raise InvalidOption(f"{name}= is not possible: {reason}.")


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


def _is_file(value: Any) -> bool:
    return _is_path(value) and os.path.isfile(value)


def _is_directory(value: Any) -> bool:
    return _is_path(value) and os.path.isdir(value)


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
    return lambda value: not isinstance(value, type) and callable(getattr(value, name, None))


def _is_function_of_one(value: Any) -> bool:
    if not callable(value):
        return False
    try:
        inspect.signature(value).bind(None)
    except TypeError:
        return False
    except ValueError:
        pass  # Written in C, it may not tell what it takes.
    return True


def _is_keepalive(value: Any) -> bool:
    """Whether a socket takes these; the one that is made for it is connected to nothing."""
    if not isinstance(value, Mapping):
        return False
    with suppress(OSError, TypeError, ValueError, OverflowError), socket.socket() as made:
        for option, setting in value.items():
            made.setsockopt(socket.IPPROTO_TCP, option, setting)
        return True
    return False


def _is_family(value: Any) -> bool:
    families = (socket.AF_UNSPEC, socket.AF_INET, socket.AF_INET6)
    return isinstance(value, int) and not isinstance(value, bool) and value in families


def _is_maintenance(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "enabled")


_RESP3 = "it needs RESP3, and replies are parsed as RESP2, alike on every server"
_SENSELESS = {
    "connection_pool": "give client=redis.Redis(connection_pool=...), or the options of the pool",
    "single_connection_client": "each thread has a connection of its own",
    "cache": _RESP3,
    "cache_config": _RESP3,
    "oss_cluster_maint_notifications_handler": "it is for a cluster, and this is one server",
}
_FILE = (_is_file, "the path of a file that is there")
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
    "redis_connect_func": (_is_function_of_one, "a function of one argument, the connection"),
    "socket_keepalive_options": (_is_keepalive, "a mapping from TCP options to their values"),
    "socket_type": (_is_family, "0, socket.AF_INET or socket.AF_INET6"),
    "command_packer": (_has("pack"), "an object with a method pack"),
    "event_dispatcher": (_has("dispatch"), "an object with a method dispatch"),
    "maint_notifications_config": (_is_maintenance, "a MaintNotificationsConfig of redis-py"),
    "lib_name": _TEXT,
    "lib_version": _TEXT,
    "unix_socket_path": (_is_path, "the path of a socket"),
    "ssl": (lambda value: isinstance(value, bool), "True or False"),
    "credential_provider": (_has("get_credentials"), "a redis.CredentialProvider"),
    "ssl_keyfile": _FILE,
    "ssl_certfile": _FILE,
    "ssl_ca_certs": _FILE,
    "ssl_ca_path": (_is_directory, "the path of a directory that is there"),
    "ssl_ca_data": _TEXT,
    "ssl_password": _TEXT,
    "ssl_ciphers": _TEXT,
    "ssl_min_version": (_is_known(ssl.TLSVersion), "an ssl.TLSVersion"),
}
