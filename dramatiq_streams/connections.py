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
    ServerOutOfMemory,
    StreamsError,
    UnsupportedServer,
)
from .urls import completed, pool_of, refuse_unknown

# A server in one of these states does nothing now and may serve again soon (Redis' error codes).
_UNABLE_NOW = re.compile(
    r"\b(LOADING|READONLY|CLUSTERDOWN|MASTERDOWN|NOREPLICAS|TRYAGAIN|MISCONF|BUSY"
    r"|max number of clients reached)\b"
)
# Of a code that redis-py has a class for, only the class is left.
_UNABLE_NOW_CLASSES = (
    redis.ReadOnlyError,
    redis.exceptions.ClusterError,
    redis.exceptions.TryAgainError,
)
# A server that says so is not the master: another one may be.
_NOT_MASTER = re.compile(r"\b(READONLY|MASTERDOWN)\b")
_NOT_MASTER_CLASSES = (redis.ReadOnlyError, redis.exceptions.MasterDownError)
_GROUP_MISSING = re.compile(r"\b(NOGROUP|UNBLOCKED)\b")
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


class Presence:
    """How the server knows a dedicated connection, since it was last opened."""

    def __init__(self) -> None:
        #: None before the first connection, and where an ACL forbids CLIENT INFO.
        self.client_id: int | None = None
        self.address = ""
        self.since_ms = clock.monotonic_ms()

    def note(self, connection: Any) -> None:
        """Set up a new *connection* as redis-py does, and ask the server for its id."""
        connection.on_connect()
        self.since_ms = clock.monotonic_ms()
        connection.send_command("CLIENT", "INFO", check_health=False)
        try:
            text: bytes = connection.read_response()
        except redis.ResponseError:
            self.client_id = None
            return
        fields = dict(field.partition("=")[::2] for field in text.decode().split())
        self.client_id = int(fields["id"])
        self.address = fields.get("addr", "").rpartition(":")[0]


class Executor:
    """Runs commands on a pool of connections, each command on one of its own."""

    def __init__(self, pool: redis.ConnectionPool, presence: Presence | None = None) -> None:
        self._pool = pool
        self.presence = presence or Presence()

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
            self._leave_if_no_master(connection, error)
            raise as_broker_error(error) from error
        except BaseException:
            # TimeLimitExceeded or Shutdown was raised in this thread: the reply is still to come,
            # and the next command on this connection would read it as its own.
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)

    def execute_blocking(self, *command: Any, then: Command, alarm: Alarm) -> tuple[Any, Any]:
        """As `execute`, for a command that blocks on the server; *alarm* rings meanwhile.

        *then* is sent along, is run when *command* is done, and costs no round trip: two replies.
        The server's own timeouts are up to a tenth of a second late (its `hz`); alarms are not.
        A reply that takes longer than the socket timeout is not coming any more.
        """
        connection = self._connect()
        deadline_ms = clock.monotonic_ms() + self._pool.connection_kwargs["socket_timeout"] * 1000
        try:
            connection.send_packed_command(connection.pack_commands([command, then]))
            while not connection.can_read(timeout=_seconds_to_wait(alarm, deadline_ms)):
                if clock.monotonic_ms() >= deadline_ms:
                    raise redis.TimeoutError("The reply to a blocking command is overdue.")
                if alarm.seconds_left() <= 0:
                    alarm.ring()
            # Both before one is raised: the next command must not read the other's reply.
            replies = _read(connection), _read(connection)
            self._leave_if_no_master(connection, replies[0])
        except (redis.RedisError, OSError) as error:
            connection.disconnect()
            raise as_broker_error(error) from error
        except BaseException:
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)
        for reply in replies:
            if isinstance(reply, Exception):
                raise as_broker_error(reply) from reply
        return replies

    def execute_many(self, commands: Sequence[Command]) -> list[Any]:
        """Send *commands* in one go; an error reply stands in the list as an exception.

        Raises:
            ConnectionFailed: Nothing was sent.
            ConnectionClosed: The connection broke; any of the commands may have taken effect.
        """
        connection = self._connect()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            replies = [_read(connection) for _ in commands]
            for reply in replies:
                self._leave_if_no_master(connection, reply)
        except (redis.RedisError, OSError) as error:
            raise as_broker_error(error) from error
        except BaseException:
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)
        return [as_broker_error(r) if isinstance(r, Exception) else r for r in replies]

    def close(self) -> None:
        """Close every connection; the next command opens a new one."""
        self._pool.disconnect()

    def _leave_if_no_master(self, connection: Any, reply: Any) -> None:
        """After a failover: connect anew next time, to the server that is the master then."""
        if not isinstance(reply, Exception):
            return
        if isinstance(reply, _NOT_MASTER_CLASSES) or _NOT_MASTER.search(str(reply)):
            connection.disconnect()
            self._pool.disconnect(inuse_connections=False)

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
        given = pool_of(url, client, parameters)
        self._connection_class = given.connection_class
        self._parameters: dict[str, Any] = {
            **completed(given.connection_kwargs),
            "decode_responses": False,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "retry_on_timeout": False,
            "retry_on_error": [],
        }
        self._parameters.pop("maint_notifications_config", None)
        refuse_unknown(self._connection_class, self._parameters)

    @property
    def is_default_user(self) -> bool:
        """Whether the server knows us as its default user, who may usually do everything."""
        name = self._parameters.get("username") or "default"
        return name == "default" and "credential_provider" not in self._parameters

    def shared(self, *, blocking_ms: float = 0) -> redis.Redis:
        """A client whose pool grows with the threads; replies may take *blocking_ms* longer."""
        # redis-py stops at 100 connections, and fails; the number of threads is the user's affair.
        timeout = self._parameters["socket_timeout"] + blocking_ms / 1000
        pool = self._pool(max_connections=2**31, socket_timeout=timeout)
        return redis.Redis(connection_pool=pool)

    def dedicated(self, *, blocking_ms: float = 0) -> Executor:
        """One connection of its own, whose replies may take *blocking_ms* longer than usual."""
        timeout = self._parameters["socket_timeout"] + blocking_ms / 1000
        presence = Presence()
        pool = self._pool(
            max_connections=1, socket_timeout=timeout, redis_connect_func=presence.note
        )
        return Executor(pool, presence)

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


def _seconds_to_wait(alarm: Alarm, deadline_ms: float) -> float:
    return max(min(alarm.seconds_left(), (deadline_ms - clock.monotonic_ms()) / 1000), 0.0)


def _read(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error
