"""One lock server: what it is asked, and what is done while it is away.

A master that does not answer in time is not asked for a while (a circuit breaker), so that only
the first of many callers waits for it. What must not be forgotten is done when it is back.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import redis
from dramatiq.errors import BrokerConnectionError, ConnectionClosed, ConnectionFailed
from dramatiq.logging import get_logger
from redis.exceptions import NoScriptError

from ... import clock
from ...errors import CommandFailed, ServerOutOfMemory, StreamsError
from ...events import Event, Events
from ...executor import Executor
from .votes import Answer, LockCommand, Verdict

#: Milliseconds from a failure to the first probe; doubled with each that fails.
FIRST_PROBE_MS = 100.0
LONGEST_PROBE_MS = 2_000.0

#: The most releases that wait for one master; what is dropped expires by itself.
MOST_KEPT = 10_000

_PING = LockCommand(("PING",))


class Master:
    """Asks one server; any thread may, and each is sure to have a connection to itself.

    Args:
        name: Where it is, for people; no password.
        executor: Its connections, with short timeouts.
        events: Hears of failures.
    """

    def __init__(self, name: str, executor: Executor, *, events: Events) -> None:
        self.logger = get_logger(__name__, type(self))
        self.name = name
        #: Whether it is not asked at present.
        self.is_away = False
        self._executor = executor
        self._events = events
        self._changing = threading.Lock()
        self._failures = 0
        self._probe_at_ms = 0.0
        self._kept: deque[LockCommand] = deque(maxlen=MOST_KEPT)

    def answer(self, command: LockCommand, *, is_kept: bool = False) -> Answer:
        """Ask it; nothing is raised, however the server fails.

        Args:
            command: Whether its reply is true is the answer.
            is_kept: Do it later, if it cannot be done now.
        """
        try:
            reply = self._ask(command)
        except (ServerOutOfMemory, CommandFailed) as error:
            if is_kept:
                self.logger.warning("The lock server %s refused a release: %s", self.name, error)
            return Answer(Verdict.UNSENT, error)
        except BrokerConnectionError as error:
            if is_kept:
                self._kept.append(command)
            is_unsent = isinstance(error, ConnectionFailed)
            return Answer(Verdict.UNSENT if is_unsent else Verdict.UNKNOWN, error)
        return Answer(Verdict.YES if reply else Verdict.NO)

    def seconds_to_probe(self) -> float | None:
        """How long until it should be tried again; None when there is nothing to try."""
        if self.is_away:
            return max(self._probe_at_ms - clock.monotonic_ms(), 0) / 1000
        return 0.0 if self._kept else None

    def probe(self) -> None:
        """Find out whether it is back, if it is time for that, and do what was kept for it."""
        if not (self._take_probe() if self.is_away else self._kept):
            return
        try:
            self._catch_up()
        except (BrokerConnectionError, StreamsError) as error:
            self.logger.debug("The lock server %s still fails: %s", self.name, error)

    def close(self) -> None:
        """Close its connections; what was kept for it is forgotten, and its keys expire."""
        self._executor.close()

    def _ask(self, command: LockCommand) -> Any:
        if self.is_away and not self._take_probe():
            raise ConnectionFailed("it is away, and was not asked")
        self._catch_up()
        return self._send(command)

    def _take_probe(self) -> bool:
        """Whether it is time for a probe; then it is the caller's, and nobody else's."""
        with self._changing:
            now_ms = clock.monotonic_ms()
            is_due = now_ms >= self._probe_at_ms
            if is_due:
                self._probe_at_ms = now_ms + FIRST_PROBE_MS
            return is_due

    def _catch_up(self) -> None:
        if self.is_away:
            # On a new connection: what an old one has brought the server has read before this.
            self._executor.close()
            try:
                self._send(_PING)
            except CommandFailed as error:
                self.logger.debug("The lock server %s refuses PING: %s", self.name, error)
            self._note_return()
        while self._kept:
            self._do_kept()

    def _do_kept(self) -> None:
        try:
            command = self._kept.popleft()
        except IndexError:  # another thread was quicker
            return
        try:
            self._send(command)
        except (CommandFailed, ServerOutOfMemory) as error:
            self.logger.warning("The lock server %s refused a release: %s", self.name, error)
        except BaseException:
            self._kept.appendleft(command)
            raise

    def _send(self, command: LockCommand) -> Any:
        try:
            reply = self._execute(command)
        except ServerOutOfMemory:
            self._events.tell(Event.LOCK_SERVER_FAILED, self.name)
            raise
        except BrokerConnectionError as error:
            self._note_failure(error)
            raise
        except CommandFailed:
            self._events.tell(Event.LOCK_SERVER_FAILED, self.name)
            self._failures = 0
            raise
        self._failures = 0
        return reply

    def _execute(self, command: LockCommand) -> Any:
        try:
            return self._executor.execute(*command.words)
        except NoScriptError:
            if command.unabridged is None:
                raise
            return self._executor.execute(*command.unabridged)

    def _note_failure(self, error: BrokerConnectionError) -> None:
        self._events.tell(Event.LOCK_SERVER_FAILED, self.name)
        # Its other connections are no better, or would be told of first what was sent last.
        self._executor.close()
        self._failures += 1
        if self._failures == 1 and _is_cut(error):
            return  # A restart, or one connection's end: the next command connects anew.
        doublings = min(self._failures - 1, 10)
        wait_ms = min(FIRST_PROBE_MS * 2**doublings, LONGEST_PROBE_MS)
        with self._changing:
            self._probe_at_ms = clock.monotonic_ms() + wait_ms
            was_away, self.is_away = self.is_away, True
        if not was_away:
            self.logger.warning("The lock server %s is away: %s", self.name, error)

    def _note_return(self) -> None:
        with self._changing:
            was_away, self.is_away = self.is_away, False
        if was_away:
            self.logger.info("The lock server %s is back.", self.name)


def _is_cut(error: BrokerConnectionError) -> bool:
    """Whether the connection ended, at once: no timeout, and no server that refuses."""
    is_late = isinstance(error.__cause__, redis.TimeoutError | TimeoutError)
    return isinstance(error, ConnectionClosed) and not is_late
