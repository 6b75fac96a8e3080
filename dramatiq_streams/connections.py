"""How the server is reached: from a URL, a client or redis-py's own options.

Every reply is parsed as RESP2, so that scripts and blocking reads look alike on every server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from .errors import CommandFailed, InvalidOption, StreamsError, UnsupportedServer
from .executor import Executor

#: Seconds to wait for a reply, unless the user says otherwise; blocking reads add their own time.
DEFAULT_SOCKET_TIMEOUT = 10.0
DEFAULT_CONNECT_TIMEOUT = 5.0
LONGEST_SOCKET_TIMEOUT = 86_400
_DEFAULTS = {
    "socket_timeout": DEFAULT_SOCKET_TIMEOUT,
    "socket_connect_timeout": DEFAULT_CONNECT_TIMEOUT,
}

_CREDENTIALS = re.compile(r"//.*@")


class Connections:
    """Knows how to reach the server; opens nothing by itself."""

    def __init__(
        self,
        *,
        url: str | None,
        client: redis.Redis | None,
        parameters: Mapping[str, Any],
    ) -> None:
        given = _pool_of(url, client, parameters)
        self._connection_class = given.connection_class
        self._parameters: dict[str, Any] = {
            **_DEFAULTS,
            **{name: value for name, value in given.connection_kwargs.items() if value is not None},
            "decode_responses": False,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "retry_on_timeout": False,
            "retry_on_error": [],
        }
        self._parameters.pop("maint_notifications_config", None)
        _refuse_bad_timeouts(self._parameters)
        _refuse_unknown_parameters(self._connection_class, self._parameters)

    def client(self) -> redis.Redis:
        """A client for the user; its pool grows with the threads that use it."""
        return redis.Redis(connection_pool=self._pool())

    def shared(self) -> Executor:
        """As many connections as there are threads that use it at the same time."""
        return Executor(self._pool())

    def dedicated(self, *, blocking_ms: float = 0) -> Executor:
        """One connection of its own, whose replies may take *blocking_ms* longer than usual."""
        timeout = self._parameters["socket_timeout"] + blocking_ms / 1000
        return Executor(self._pool(socket_timeout=timeout))

    def _pool(self, **parameters: Any) -> redis.ConnectionPool:
        # redis-py stops at 100 connections, and fails; the number of threads is the user's affair.
        return redis.ConnectionPool(
            connection_class=self._connection_class,
            max_connections=2**31,
            **{**self._parameters, **parameters},
        )


def check_server(executor: Executor) -> None:
    """Make sure that the server has all that the scripts use.

    Raises:
        UnsupportedServer: It does not know XAUTOCLAIM, which came with Redis 6.2.
    """
    try:
        known = executor.execute("COMMAND", "INFO", "XAUTOCLAIM")
    except CommandFailed:
        return  # An ACL may forbid COMMAND; then the first script tells.
    if known and known[0]:
        return
    try:
        information = executor.execute("INFO", "server").decode()
    except StreamsError:
        information = ""
    version = re.search(r"redis_version:(\S+)", information)
    found = f"version {version[1]}" if version else "an unknown version"
    raise UnsupportedServer(
        f"The server has no XAUTOCLAIM: it is {found}, and dramatiq_streams needs"
        " Redis 6.2 or newer, or Valkey. Upgrade the server, or name another in url=."
    )


def _pool_of(
    url: str | None, client: redis.Redis | None, parameters: Mapping[str, Any]
) -> redis.ConnectionPool:
    if client is not None:
        if url is not None or parameters:
            given = ["url"] * (url is not None) + sorted(parameters)
            raise InvalidOption(f"client= is complete in itself: leave out {', '.join(given)}.")
        return _pool_of_client(client)
    try:
        if url is None:
            return redis.Redis(**{**_DEFAULTS, **parameters}).connection_pool
        if not isinstance(url, str):
            raise InvalidOption.of("url", url, "a string such as redis://localhost:6379/0")
        if url.startswith("embedded:"):
            from .embedded import embedded_pool_parameters

            return redis.ConnectionPool(**{**parameters, **embedded_pool_parameters(url)})
        return redis.ConnectionPool.from_url(url, **parameters)
    except InvalidOption:
        raise
    except TypeError as error:
        raise InvalidOption(f"A connection option is not possible: {error}.") from error
    except ValueError as error:
        shown = _CREDENTIALS.sub("//***@", str(url))
        raise InvalidOption(f"url={shown!r} is not possible: {error}") from error


def _pool_of_client(client: redis.Redis) -> redis.ConnectionPool:
    pool: Any = getattr(client, "connection_pool", None)
    if type(pool) not in (redis.ConnectionPool, redis.BlockingConnectionPool):
        raise InvalidOption.of("client", client, "a redis.Redis with an ordinary connection pool")
    return pool  # type: ignore[no-any-return]


def _refuse_bad_timeouts(parameters: Mapping[str, Any]) -> None:
    for name in ("socket_timeout", "socket_connect_timeout"):
        value = parameters[name]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value <= LONGEST_SOCKET_TIMEOUT:
            allowed = f"a number of seconds above 0, at most {LONGEST_SOCKET_TIMEOUT}"
            raise InvalidOption.of(name, value, allowed)


def _refuse_unknown_parameters(connection_class: Any, parameters: Mapping[str, Any]) -> None:
    """Construct a connection, which opens nothing, so that a wrong option fails now."""
    try:
        connection_class(**parameters)
    except TypeError as error:
        hint = " For TLS use a rediss:// URL." if "'ssl'" in str(error) else ""
        raise InvalidOption(f"A connection option is not possible: {error}.{hint}") from error
    except (ValueError, redis.RedisError) as error:
        raise InvalidOption(f"A connection option is not possible: {error}") from error
