"""Connections to Redis, and the one place where redis-py's errors become dramatiq's.

No redis-py retries: repeating an XADD whose reply was lost would enqueue a message twice. Every
reply is parsed as RESP2, so that scripts and blocking reads look alike on every server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import redis
from dramatiq.errors import ConnectionClosed, ConnectionFailed
from redis.backoff import NoBackoff
from redis.retry import Retry

from . import clock
from .errors import (
    CommandFailed,
    GroupMissing,
    InvalidOption,
    ServerOutOfMemory,
    StreamsError,
    UnsupportedServer,
)

#: Seconds to wait for a reply, unless the user says otherwise; blocking reads add their own time.
DEFAULT_SOCKET_TIMEOUT = 10.0
DEFAULT_CONNECT_TIMEOUT = 5.0
LONGEST_SOCKET_TIMEOUT = 86_400
_DEFAULTS = {
    "socket_timeout": DEFAULT_SOCKET_TIMEOUT,
    "socket_connect_timeout": DEFAULT_CONNECT_TIMEOUT,
}

# A server in one of these states does nothing now and may serve again soon (Redis' error codes).
_UNABLE_NOW = re.compile(
    r"\b(LOADING|READONLY|CLUSTERDOWN|MASTERDOWN|NOREPLICAS|TRYAGAIN|MISCONF|BUSY"
    r"|max number of clients reached|unauthenticated (?:multi)?bulk length)\b"
)
# Of a code that redis-py has a class for, only the class is left.
_UNABLE_NOW_CLASSES = (
    redis.ReadOnlyError,
    redis.exceptions.ClusterError,
    redis.exceptions.TryAgainError,
)
_GROUP_MISSING = re.compile(r"\b(NOGROUP|UNBLOCKED)\b")
_CREDENTIALS = re.compile(r"//.*@")
_OUT_OF_MEMORY = re.compile(r"\bOOM\b")

Command = tuple[Any, ...]


def as_broker_error(error: Exception) -> Exception:
    """What dramatiq, or our caller, is to see instead of redis-py's *error*.

    Scripts wrap the codes in text of their own, differently in each server version, so the text
    decides beside redis-py's class.
    """
    text = str(error) or type(error).__name__
    if isinstance(error, redis.exceptions.NoScriptError):
        return error
    # This first: its text names a key, and a queue may be called OOM.
    if _GROUP_MISSING.search(text):
        return GroupMissing(text)
    if isinstance(error, redis.OutOfMemoryError) or _OUT_OF_MEMORY.search(text):
        return ServerOutOfMemory(f"The server is out of memory and stored nothing: {text}")
    if isinstance(error, redis.AuthenticationError | redis.BusyLoadingError):
        return ConnectionFailed(text)
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | OSError):
        return ConnectionClosed(text)
    if isinstance(error, _UNABLE_NOW_CLASSES) or _UNABLE_NOW.search(text):
        return ConnectionFailed(text)
    return CommandFailed(text)


class Alarm(Protocol):
    """Something to do while a command blocks."""

    def seconds_left(self) -> float:
        """Seconds until it rings."""

    def ring(self) -> None:
        """Do it, on another connection."""


class Executor:
    """Runs commands on a pool of connections, each command on one of its own."""

    def __init__(self, pool: redis.ConnectionPool) -> None:
        self._pool = pool

    def execute(self, *command: Any) -> Any:
        """Send *command* and return the server's reply as it is.

        Raises:
            ConnectionFailed: Nothing was sent, or the server is unable to serve now.
            ConnectionClosed: The connection broke; the command may have taken effect.
            StreamsError: See `as_broker_error`.
        """
        connection = self._connect()
        try:
            connection.send_command(*command)
            return connection.read_response()
        except (redis.RedisError, OSError) as error:
            raise as_broker_error(error) from error
        except BaseException:
            # TimeLimitExceeded or Shutdown was raised in this thread: the reply is still to come,
            # and the next command on this connection would read it as its own.
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)

    def execute_blocking(self, *command: Any, alarm: Alarm) -> Any:
        """As `execute`, for a command that blocks on the server; *alarm* rings meanwhile.

        The server's own timeouts are up to a tenth of a second late (its `hz`); alarms are not.
        A reply that takes longer than the socket timeout is not coming any more.
        """
        connection = self._connect()
        deadline_ms = clock.monotonic_ms() + self._pool.connection_kwargs["socket_timeout"] * 1000
        try:
            connection.send_command(*command)
            while not connection.can_read(timeout=_seconds_to_wait(alarm, deadline_ms)):
                if clock.monotonic_ms() >= deadline_ms:
                    raise redis.TimeoutError("The reply to a blocking command is overdue.")
                if alarm.seconds_left() <= 0:
                    alarm.ring()
            return connection.read_response()
        except redis.ResponseError as error:
            raise as_broker_error(error) from error
        except (redis.RedisError, OSError) as error:
            connection.disconnect()
            raise as_broker_error(error) from error
        except BaseException:
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)

    def execute_many(self, commands: Sequence[Command]) -> list[Any]:
        """Send *commands* in one go; an error reply stands in the list as an exception.

        Raises:
            ConnectionFailed: Nothing was sent.
            ConnectionClosed: The connection broke; any of the commands may have taken effect.
        """
        connection = self._connect()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            return [_read(connection) for _ in commands]
        except (redis.RedisError, OSError) as error:
            raise as_broker_error(error) from error
        except BaseException:
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)

    def close(self) -> None:
        """Close every connection; the next command opens a new one."""
        self._pool.disconnect()

    def _connect(self) -> Any:
        try:
            return self._pool.get_connection()
        except (redis.RedisError, OSError) as error:
            failure = as_broker_error(error)
            if isinstance(failure, ConnectionClosed):
                failure = ConnectionFailed(str(failure))
            raise failure from error


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

    def shared(self) -> redis.Redis:
        """A client whose pool grows with the threads that use it."""
        # redis-py stops at 100 connections, and fails; the number of threads is the user's affair.
        return redis.Redis(connection_pool=self._pool(max_connections=2**31))

    def dedicated(self, *, blocking_ms: float = 0) -> Executor:
        """One connection of its own, whose replies may take *blocking_ms* longer than usual."""
        timeout = self._parameters["socket_timeout"] + blocking_ms / 1000
        return Executor(self._pool(max_connections=1, socket_timeout=timeout))

    def _pool(self, **parameters: Any) -> redis.ConnectionPool:
        return redis.ConnectionPool(
            connection_class=self._connection_class, **{**self._parameters, **parameters}
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


def _seconds_to_wait(alarm: Alarm, deadline_ms: float) -> float:
    return max(min(alarm.seconds_left(), (deadline_ms - clock.monotonic_ms()) / 1000), 0.0)


def _read(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return as_broker_error(error)
