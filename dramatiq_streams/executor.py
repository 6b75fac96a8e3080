"""Commands on connections, and the one place where redis-py's errors become dramatiq's.

Nothing is retried here: repeating an XADD whose reply was lost would enqueue a message twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import redis
from dramatiq.errors import ConnectionClosed, ConnectionFailed

from . import clock
from .errors import CommandFailed, GroupMissing, ServerOutOfMemory

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
    """Runs commands, each on a connection that nobody else uses meanwhile.

    A connection is lent out and comes back only after its replies have been read. Actors' threads
    can be interrupted anywhere, by TimeLimitExceeded or Shutdown: an interrupted command's
    connection is never used again, since its reply, still to come, would answer the next command.
    """

    def __init__(self, pool: redis.ConnectionPool, presence: Presence | None = None) -> None:
        self._pool = pool
        self.presence = presence or Presence()
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
            reply = _read(connection)
        except BaseException as error:
            raise _abandoned(connection, error) from error
        self._give_back(connection, closings, reply)
        if isinstance(reply, Exception):
            raise reply from reply.__cause__
        return reply

    def execute_blocking(
        self, *command: Any, alarm: Alarm, then: Command = ("PING",)
    ) -> tuple[Any, Any]:
        """As `execute`, for a command that blocks on the server; *alarm* rings meanwhile.

        *then* is sent along, is run when *command* is done, and costs no round trip: two replies.
        The server's own timeouts are up to a tenth of a second late (its `hz`); alarms are not.
        A reply that takes longer than the socket timeout is not coming any more.
        """
        closings, connection = self._closings, self._connect()
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
        except BaseException as error:
            raise _abandoned(connection, error) from error
        self._give_back(connection, closings, *replies)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply from reply.__cause__
        return replies

    def execute_many(self, commands: Sequence[Command]) -> list[Any]:
        """Send *commands* in one go; an error reply stands in the list as an exception.

        Raises:
            ConnectionFailed: Nothing was sent.
            ConnectionClosed: The connection broke; any of the commands may have taken effect.
        """
        closings, connection = self._closings, self._connect()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            replies = [_read(connection) for _ in commands]
        except BaseException as error:
            raise _abandoned(connection, error) from error
        self._give_back(connection, closings, *replies)
        return replies

    def close(self) -> None:
        """Close every connection, those in use when they come back; the next command opens one."""
        self._closings += 1
        while self._idle:
            self._idle.pop().disconnect()

    def _connect(self) -> Any:
        try:
            return _ready(self._lend())
        except (redis.RedisError, OSError) as error:
            failure = as_broker_error(error)
            if isinstance(failure, ConnectionClosed):
                failure = ConnectionFailed(str(failure))
            raise failure from error

    def _lend(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            return self._pool.make_connection()

    def _give_back(self, connection: Any, closings: int, *replies: Any) -> None:
        if any(map(_is_no_master, replies)):
            # After a failover: connect anew next time, to the server that is the master then.
            self.close()
        if closings == self._closings:
            self._idle.append(connection)
        else:
            connection.disconnect()


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


def _abandoned(connection: Any, error: BaseException) -> BaseException:
    """Close *connection*, whose replies are not all read; returns what is to be raised."""
    connection.disconnect()
    is_ours = isinstance(error, redis.RedisError | OSError)
    return as_broker_error(error) if is_ours else error  # type: ignore[arg-type]


def _read(connection: Any) -> Any:
    """The next reply; an error reply is returned as what is to be raised."""
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        failure = as_broker_error(error)
        failure.__cause__ = error
        return failure


def _is_no_master(reply: Any) -> bool:
    cause = reply.__cause__ if isinstance(reply, Exception) else None
    if cause is None:
        return False
    return isinstance(cause, _NOT_MASTER_CLASSES) or bool(_NOT_MASTER.search(str(cause)))


def _seconds_to_wait(alarm: Alarm, deadline_ms: float) -> float:
    return max(min(alarm.seconds_left(), (deadline_ms - clock.monotonic_ms()) / 1000), 0.0)
