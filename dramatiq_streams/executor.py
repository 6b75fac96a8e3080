"""Commands on connections; no error of redis-py's leaves them.

Nothing is retried here: repeating an XADD whose reply was lost would enqueue a message twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import redis
from dramatiq.errors import BrokerConnectionError, ConnectionClosed, ConnectionFailed

from . import clock
from .errors import CommandFailed
from .events import Event, Events
from .failures import as_broker_error, means_no_master

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
        #: None before the first connection, empty where an ACL forbids CLIENT INFO.
        self.address: str | None = None
        self.since_ms = clock.monotonic_ms()

    def note(self, connection: Any) -> None:
        """Set up a new *connection* as redis-py does, and ask the server for its id."""
        connection.on_connect()
        self.since_ms = clock.monotonic_ms()
        connection.send_command("CLIENT", "INFO", check_health=False)
        try:
            text: bytes = connection.read_response()
        except redis.ResponseError:
            self.client_id, self.address = None, ""
            return
        fields = dict(field.partition("=")[::2] for field in text.decode().split())
        self.client_id = int(fields["id"])
        self.address = fields.get("addr", "").rpartition(":")[0]


class Executor:
    """Runs commands, each on a connection that nobody else uses meanwhile.

    A connection is lent out and comes back only after its replies have been read. Actors' threads
    can be interrupted anywhere, by TimeLimitExceeded or Shutdown: an interrupted command's
    connection is never used again, since its reply, still to come, would answer the next command.
    """

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
        self._idle: list[Any] = []
        self._closings = 0

    def execute(self, *command: Any) -> Any:
        """Send *command* and return the server's reply as it is.

        Raises:
            ConnectionFailed: Nothing was sent, or the server is unable to serve now.
            ConnectionClosed: The connection broke; the command may have taken effect.
            StreamsError: See `as_broker_error`.
        """
        closings, connection = self._closings, self._connect()
        try:
            connection.send_command(*command)
            reply = self._read(connection)
        except BaseException as error:
            raise self._abandoned(connection, error) from error
        self._give_back(connection, closings, reply)
        if isinstance(reply, Exception):
            raise reply from reply.__cause__
        return reply

    def execute_blocking(self, *command: Any, alarm: Alarm) -> Any:
        """As `execute`, for a command that blocks on the server; *alarm* rings meanwhile.

        The server's own timeouts are up to a tenth of a second late (its `hz`); alarms are not.
        A reply that takes longer than the socket timeout is not coming any more.
        """
        closings, connection = self._closings, self._connect()
        deadline_ms = clock.monotonic_ms() + self._pool.connection_kwargs["socket_timeout"] * 1000
        try:
            connection.send_command(*command)
            while not connection.can_read(timeout=_seconds_to_wait(alarm, deadline_ms)):
                if clock.monotonic_ms() >= deadline_ms:
                    raise redis.TimeoutError("The reply to a blocking command is overdue.")
                if alarm.seconds_left() <= 0:
                    alarm.ring()
            reply = self._read(connection)
        except BaseException as error:
            raise self._abandoned(connection, error) from error
        self._give_back(connection, closings, reply)
        if isinstance(reply, Exception):
            raise reply from reply.__cause__
        return reply

    def execute_many(self, commands: Sequence[Command]) -> list[Any]:
        """Send *commands* in one go; an error reply stands in the list as an exception.

        Raises:
            ConnectionFailed: Nothing was sent.
            ConnectionClosed: The connection broke; any of the commands may have taken effect.
        """
        closings, connection = self._closings, self._connect()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            replies = [self._read(connection) for _ in commands]
        except BaseException as error:
            raise self._abandoned(connection, error) from error
        self._give_back(connection, closings, *replies)
        return replies

    def close(self) -> None:
        """Close every connection, those in use when they come back; the next command opens one."""
        self._closings += 1
        while self._idle:
            self._idle.pop().disconnect()

    def _connect(self) -> Any:
        try:
            connection = _ready(self._lend())
        except (redis.RedisError, OSError) as error:
            failure = self._failure(error)
            if isinstance(failure, ConnectionClosed):
                failure = ConnectionFailed(str(failure))
            raise failure from error
        if self._has_failed:
            self._has_failed = False
            self._events.tell(Event.RECONNECTED)
        return connection

    def _lend(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            return self._pool.make_connection()

    def _give_back(self, connection: Any, closings: int, *replies: Any) -> None:
        if any(isinstance(reply, Exception) and _is_no_master(reply) for reply in replies):
            # After a failover: connect anew next time, to the server that is the master then.
            self.close()
        if closings == self._closings:
            self._idle.append(connection)
        else:
            connection.disconnect()

    def _abandoned(self, connection: Any, error: BaseException) -> BaseException:
        """Close *connection*, whose replies are not all read; returns what is to be raised."""
        connection.disconnect()
        return self._failure(error) if isinstance(error, redis.RedisError | OSError) else error

    def _read(self, connection: Any) -> Any:
        """The next reply; an error reply is returned as what is to be raised."""
        try:
            return connection.read_response()
        except redis.ResponseError as error:
            failure = self._failure(error)
            failure.__cause__ = error
            return failure

    def _failure(self, error: Exception) -> Exception:
        failure = as_broker_error(error)
        if isinstance(failure, ConnectionClosed | ConnectionFailed):
            self._has_failed = True
        if isinstance(failure, BrokerConnectionError | CommandFailed):
            self._events.tell(Event.FAILED, type(failure).__name__)
        return failure


def _ready(connection: Any) -> Any:
    """Open *connection* if it is not, and anew if the server has closed it while it was idle."""
    connection.connect()
    try:
        is_fresh = not connection.can_read()
    except (redis.ConnectionError, redis.TimeoutError, OSError):
        is_fresh = False
    if not is_fresh:
        connection.disconnect()
        connection.connect()
    return connection


def _is_no_master(failure: Exception) -> bool:
    return isinstance(failure.__cause__, Exception) and means_no_master(failure.__cause__)


def _seconds_to_wait(alarm: Alarm, deadline_ms: float) -> float:
    return max(min(alarm.seconds_left(), (deadline_ms - clock.monotonic_ms()) / 1000), 0.0)
