"""Connections to Redis; no error of redis-py's leaves them.

No redis-py retries: repeating an XADD whose reply was lost would enqueue a message twice. Every
reply is parsed as RESP2, so that scripts and blocking reads look alike on every server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import redis
from dramatiq.errors import BrokerConnectionError, ConnectionClosed, ConnectionFailed
from redis.backoff import NoBackoff
from redis.retry import Retry

from . import clock
from .errors import (
    CommandFailed,
    StreamsError,
    UnsupportedServer,
)
from .events import Event, Events
from .failures import as_broker_error, means_no_master
from .urls import completed, pool_of, refuse_unknown

Command = tuple[Any, ...]


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

    def __init__(
        self,
        pool: redis.ConnectionPool,
        presence: Presence | None = None,
        *,
        events: Events | None = None,
    ) -> None:
        self._pool = pool
        self.presence = presence or Presence()
        self._events = events or Events()
        self._has_failed = False

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
            raise self._failure(error) from error
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
            raise self._failure(error) from error
        except BaseException:
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)
        for reply in replies:
            if isinstance(reply, Exception):
                raise self._failure(reply) from reply
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
            raise self._failure(error) from error
        except BaseException:
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)
        return [self._failure(r) if isinstance(r, Exception) else r for r in replies]

    def close(self) -> None:
        """Close every connection; the next command opens a new one."""
        self._pool.disconnect()

    def _leave_if_no_master(self, connection: Any, reply: Any) -> None:
        """After a failover: connect anew next time, to the server that is the master then."""
        if isinstance(reply, Exception) and means_no_master(reply):
            connection.disconnect()
            self._pool.disconnect(inuse_connections=False)

    def _connect(self) -> Any:
        try:
            connection = self._pool.get_connection()
        except (redis.RedisError, OSError) as error:
            failure = self._failure(error)
            if isinstance(failure, ConnectionClosed):
                failure = ConnectionFailed(str(failure))
            raise failure from error
        if self._has_failed:
            self._has_failed = False
            self._events.tell(Event.RECONNECTED)
        return connection

    def _failure(self, error: Exception) -> Exception:
        failure = as_broker_error(error)
        if isinstance(failure, ConnectionClosed | ConnectionFailed):
            self._has_failed = True
        if isinstance(failure, BrokerConnectionError | CommandFailed):
            self._events.tell(Event.FAILED, type(failure).__name__)
        return failure


class Connections:
    """Knows how to reach the server; opens nothing by itself."""

    def __init__(
        self,
        *,
        url: str | None,
        client: redis.Redis | None,
        parameters: Mapping[str, Any],
        events: Events | None = None,
    ) -> None:
        self.events = events or Events()
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
        return Executor(pool, presence, events=self.events)

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
