"""Commands on connections; no error of redis-py's leaves them.

Nothing is retried here: repeating an XADD whose reply was lost would enqueue a message twice.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol

import redis
from dramatiq.errors import BrokerConnectionError, ConnectionClosed, ConnectionFailed
from hiredis import pack_command

from . import clock
from .errors import CommandFailed
from .events import Event, Events
from .failures import as_broker_error, means_no_master
from .nearness import Nearness
from .outages import STOPPING_SECONDS, Patience

Command = tuple[Any, ...]

#: Seconds between two looks of a blocked command at whether its process stops.
LOOK_SECONDS = 1.0


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


class _Idle(list[Any]):
    """The connections of an executor that are not in use."""

    #: How often all were closed.
    closings = 0
    #: Whether the last command found no server.
    is_cut_off = False


class Executor:
    """Runs commands, each on a connection that nobody else uses meanwhile.

    A connection is lent out and comes back only after its replies have been read. Actors' threads
    can be interrupted anywhere, by TimeLimitExceeded or Shutdown: an interrupted command's
    connection is never used again, since its reply, still to come, would answer the next command.

    Args:
        blocking_seconds: How much of the pool's socket timeout is for commands that block.
    """

    def __init__(
        self,
        pool: redis.ConnectionPool,
        presence: Presence | None = None,
        *,
        events: Events | None = None,
        blocking_seconds: float = 0.0,
    ) -> None:
        self._pool = pool
        self.presence = presence or Presence()
        self._events = events or Events()
        self._blocking_seconds = blocking_seconds
        self.patience = Patience.endless()
        self._idle = _Idle()
        self._nearness = Nearness()

    def with_patience(self, patience: Patience) -> Executor:
        """The same connections, for commands that end sooner when their process stops."""
        made = copy.copy(self)
        made.patience = patience
        return made

    def execute(self, *command: Any) -> Any:
        """Send *command* and return the server's reply as it is.

        Raises:
            ConnectionFailed: Nothing was sent, or the server is unable to serve now.
            ConnectionClosed: The connection broke; the command may have taken effect.
            StreamsError: See `as_broker_error`.
        """
        closings, connection = self._connect()
        try:
            # redis-py would also look for words in each command's name: ours have one.
            connection.send_packed_command([pack_command(command)])
            self._nearness.await_reply(connection)
            reply = self._read(connection)
        except BaseException as error:
            raise self._abandoned(connection, error) from error
        return self._answer(connection, closings, reply)

    def execute_blocking(self, *command: Any, alarm: Alarm) -> Any:
        """As `execute`, for a command that blocks on the server; *alarm* rings meanwhile.

        The server's own timeouts are up to a tenth of a second late (its `hz`); alarms are not.
        A reply that takes longer than the socket timeout is not coming any more.
        """
        closings, connection = self._connect()
        begun_ms = clock.monotonic_ms()
        try:
            connection.send_packed_command([pack_command(command)])
            while not connection.can_read(timeout=self._seconds_to_wait(alarm, begun_ms)):
                if clock.monotonic_ms() >= begun_ms + self._longest_seconds * 1000:
                    raise redis.TimeoutError("The reply to a blocking command is overdue.")
                if alarm.seconds_left() <= 0:
                    alarm.ring()
            reply = self._read(connection)
        except BaseException as error:
            raise self._abandoned(connection, error) from error
        return self._answer(connection, closings, reply)

    def execute_many(self, commands: Sequence[Command]) -> list[Any]:
        """Send *commands* in one go; an error reply stands in the list as an exception.

        Raises:
            ConnectionFailed: Nothing was sent.
            ConnectionClosed: The connection broke; any of the commands may have taken effect.
        """
        closings, connection = self._connect()
        try:
            connection.send_packed_command([b"".join(map(pack_command, commands))])
            replies = [self._read(connection) for _ in commands]
        except BaseException as error:
            raise self._abandoned(connection, error) from error
        failures = [reply for reply in replies if isinstance(reply, Exception)]
        self._give_back(connection, closings, failures)
        return replies

    def close(self) -> None:
        """Close every connection, those in use when they come back; the next command opens one."""
        self._idle.closings += 1
        while self._idle:
            self._idle.pop().disconnect()

    def _connect(self) -> tuple[int, Any]:
        """How often all were closed, and a connection that is open."""
        self.patience.check()
        try:
            closings, connection = self._lend()
        except (redis.RedisError, OSError) as error:
            failure = self._failure(error)
            if isinstance(failure, ConnectionClosed):
                failure = ConnectionFailed(str(failure))
            raise failure from error
        if self._idle.is_cut_off:
            self._idle.is_cut_off = False
            self._events.tell(Event.RECONNECTED)
        return closings, connection

    def _lend(self) -> tuple[int, Any]:
        """The same; an idle connection, unless the server has closed that meanwhile."""
        closings = self._idle.closings
        connection: Any
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._pool.make_connection()
        else:
            connection.connect()  # with sentinels: anew, if its server is the master no more
            if _is_fresh(connection):
                return closings, connection
            connection.disconnect()
        if self.patience.is_short:
            longest = self._longest_seconds
            connection.socket_timeout = longest
            connection.socket_connect_timeout = min(connection.socket_connect_timeout, longest)
            closings = -1  # Nobody else shall have its timeouts.
        connection.connect()
        return closings, connection

    def _answer(self, connection: Any, closings: int, reply: Any) -> Any:
        """Give back *connection*, which has brought *reply*; an error is raised."""
        if isinstance(reply, Exception):
            self._give_back(connection, closings, [reply])
            raise reply from reply.__cause__
        self._give_back(connection, closings)
        return reply

    def _give_back(
        self, connection: Any, closings: int, failures: Sequence[Exception] = ()
    ) -> None:
        if failures and any(map(_is_no_master, failures)):
            # After a failover: connect anew next time, to the server that is the master then.
            self.close()
        if closings == self._idle.closings:
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
            if self.patience.is_short and not connection.can_read(self._longest_seconds):
                raise redis.TimeoutError("No reply came, and this process stops.")
            return connection.read_response()
        except redis.ResponseError as error:
            failure = self._failure(error)
            failure.__cause__ = error
            return failure

    def _failure(self, error: Exception) -> Exception:
        failure = as_broker_error(error)
        if isinstance(error, redis.TimeoutError):
            self.patience.note_silence()
        if isinstance(failure, ConnectionClosed | ConnectionFailed):
            self._idle.is_cut_off = True
        if isinstance(failure, BrokerConnectionError | CommandFailed):
            self._events.tell(Event.FAILED, type(failure).__name__)
        return failure

    @property
    def _longest_seconds(self) -> float:
        """How long a reply may take now."""
        longest: float = self._pool.connection_kwargs["socket_timeout"]
        if self.patience.is_short:
            longest = min(longest, self._blocking_seconds + STOPPING_SECONDS)
        return longest

    def _seconds_to_wait(self, alarm: Alarm, begun_ms: float) -> float:
        left = self._longest_seconds - (clock.monotonic_ms() - begun_ms) / 1000
        return max(min(alarm.seconds_left(), left, LOOK_SECONDS), 0.0)


def _is_fresh(connection: Any) -> bool:
    """Whether nothing has come on an idle *connection*: nor its end, nor a reply to nobody."""
    try:
        return not connection.can_read()
    except (redis.ConnectionError, redis.TimeoutError, OSError):
        return False


def _is_no_master(failure: Exception) -> bool:
    return isinstance(failure.__cause__, Exception) and means_no_master(failure.__cause__)
