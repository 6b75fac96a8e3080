"""From what a user gives, a URL or a client or options, to the parameters of connections.

Nothing here connects: what is wrong is said at once, without a server.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from inspect import signature
from typing import Any

import redis

from . import sentinel
from .errors import InvalidOption
from .parameters import checked_parameters, checked_url, refuse_senseless

#: Seconds to wait for a reply, unless the user says otherwise; blocking reads add their own time.
DEFAULT_SOCKET_TIMEOUT = 10.0
DEFAULT_CONNECT_TIMEOUT = 5.0
LONGEST_SOCKET_TIMEOUT = 86_400

_DEFAULTS = {
    "socket_timeout": DEFAULT_SOCKET_TIMEOUT,
    "socket_connect_timeout": DEFAULT_CONNECT_TIMEOUT,
}
_HINTS = {
    "heartbeat_timeout": "In place of RedisBroker's heartbeat_timeout there is lease.",
    "maintenance_chance": "There is no maintenance_chance: maintenance runs in a thread.",
    "idle_timeout": "idle_timeout belongs to an embedded:// URL.",
    "start_timeout": "start_timeout belongs to an embedded:// URL.",
}
#: Beside a URL, redis-py takes these too.
_CONNECTION_OPTIONS = {
    name
    for made in (redis.ConnectionPool, redis.SSLConnection, redis.UnixDomainSocketConnection)
    for base in made.__mro__[:-1]
    for name in signature(base).parameters
}
REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
_CREDENTIALS = re.compile(r"//.*@")
_PASSWORDS = re.compile(r"(password=)[^&]*")


def pool_of(
    url: str | None, client: redis.Redis | None, parameters: Mapping[str, Any]
) -> redis.ConnectionPool:
    """A pool that knows how to connect as asked; of a client it is the client's own.

    Raises:
        InvalidOption: Naming the option, and what is allowed. Passwords are not shown.
    """
    if client is not None:
        if url is not None or parameters:
            given = ["url"] * (url is not None) + sorted(parameters)
            raise InvalidOption(f"client= is complete in itself: leave out {', '.join(given)}.")
        return _pool_of_client(client)
    refuse_senseless(parameters)
    checked_parameters(parameters)  # Before redis-py has made other objects of them.
    try:
        return _pool_of_url(url, parameters)
    except InvalidOption:
        raise
    except (AttributeError, redis.RedisError) as error:
        names = ", ".join(sorted(parameters))
        raise InvalidOption(f"Of {names}, an option is not possible: {error}.") from error
    except TypeError as error:
        text = f"A connection option is not possible: {error}.{_hint(parameters)}"
        raise InvalidOption(text) from error
    except ValueError as error:
        shown = _PASSWORDS.sub(r"\1***", _CREDENTIALS.sub("//***@", str(url)))
        ours = f"; also {', '.join(f'{scheme}://' for scheme in ('embedded', *sentinel.SCHEMES))}"
        also = ours if "schemes" in str(error) else ""
        raise InvalidOption(f"url={shown!r} is not possible: {error}{also}") from error


def refuse_unknown_names(parameters: Mapping[str, Any], own: Collection[str]) -> None:
    """Refuse what is an option neither of ours, with the names *own*, nor of `redis.Redis`.

    Raises:
        InvalidOption: Naming the option, and a similar one. Its value is not shown: it may be what
            was meant as a password.
    """
    listed = {*own, *signature(redis.Redis).parameters}
    for name in parameters:
        # What belongs to an embedded server is told apart when the URL is read.
        if name not in {*listed, *_CONNECTION_OPTIONS, *_HINTS}:
            similar = get_close_matches(name, sorted(listed), n=1)
            meant = f"; did you mean {similar[0]!r}?" if similar else "."
            raise InvalidOption(
                f"{name}= is not possible: it is no option of StreamsBroker or of redis.Redis"
                f"{meant}"
            )


def completed(given: Mapping[str, Any]) -> dict[str, Any]:
    """*given* with our defaults where it says nothing.

    Raises:
        InvalidOption: A value is not possible.
    """
    parameters = {**_DEFAULTS, **{name: given[name] for name in given if given[name] is not None}}
    for name in _DEFAULTS:
        value = parameters[name]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value <= LONGEST_SOCKET_TIMEOUT:
            allowed = f"a number of seconds above 0, at most {LONGEST_SOCKET_TIMEOUT}"
            raise InvalidOption.of(name, value, allowed)
    checked_parameters(parameters)
    return parameters


def refuse_unknown(connection_class: Any, parameters: Mapping[str, Any]) -> None:
    """Construct a connection, which opens nothing, so that a wrong option fails now.

    Raises:
        InvalidOption: Naming it.
    """
    try:
        connection_class(**parameters)
    except TypeError as error:
        hint = " For TLS use a rediss:// URL." if "'ssl'" in str(error) else _hint(parameters)
        raise InvalidOption(f"A connection option is not possible: {error}.{hint}") from error
    except (ValueError, redis.RedisError) as error:
        raise InvalidOption(f"A connection option is not possible: {error}") from error


def _hint(parameters: Mapping[str, Any]) -> str:
    """What to say of options that belong to dramatiq's RedisBroker, or to an embedded server."""
    hints = [_HINTS[name] for name in parameters if name in _HINTS]
    return "".join(f" {hint}" for hint in hints)


def _pool_of_url(url: str | None, parameters: Mapping[str, Any]) -> redis.ConnectionPool:
    if url is None:
        return redis.Redis(**{**_DEFAULTS, **parameters}).connection_pool
    if not isinstance(url, str):
        raise InvalidOption.of("url", url, "a string such as redis://localhost:6379/0")
    if url.startswith("embedded:"):
        from .embedded import embedded_pool_parameters

        return redis.ConnectionPool(**{**parameters, **embedded_pool_parameters(url)})
    if url.partition("://")[0] in sentinel.SCHEMES:
        return redis.ConnectionPool(**sentinel.sentinel_pool_parameters(url, parameters))
    if url.startswith(REDIS_SCHEMES):
        checked_url(url)  # First: redis-py's errors quote parts of a password.
    return redis.ConnectionPool.from_url(url, **parameters)


def _pool_of_client(client: redis.Redis) -> redis.ConnectionPool:
    pool: Any = getattr(client, "connection_pool", None)
    if type(pool) not in (redis.ConnectionPool, redis.BlockingConnectionPool):
        raise InvalidOption.of("client", client, "a redis.Redis with an ordinary connection pool")
    return pool  # type: ignore[no-any-return]
