"""One lock server: what it is asked, and what is done while it is away.

After a failure it is suspected: whoever asks next probes it first. After a probe that fails too it
is away, and not asked for a while (a circuit breaker), so that of many callers few wait for it.
What must not be forgotten is done when it is back.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from dramatiq.errors import BrokerConnectionError, ConnectionFailed
from dramatiq.logging import get_logger
from redis.exceptions import NoScriptError

from ... import clock
from ...errors import CommandFailed, ServerOutOfMemory, StreamsError
from ...events import Event, Events
from ...executor import Executor
from .votes import Answer, LockCommand, Verdict

#: Milliseconds from a probe that failed to the next; doubled with each that fails.
FIRST_PAUSE_MS = 100.0
LONGEST_PAUSE_MS = 2_000.0

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
        self._is_suspected = False
        # Held for as long as a probe takes; a lock in C, which an interrupt does not leave locked.
        self._probing = threading.Lock()
        self._failed_probes = 0
        self._probe_at_ms = 0.0
        self._kept: deque[LockCommand] = deque(maxlen=MOST_KEPT)
        #: The hashes of the scripts that it has.
        self._known: set[str] = set()

    def answer(self, command: LockCommand, *, is_kept: bool = False) -> Answer:
        """Ask it; nothing is raised, however the server fails.

        Args:
            command: Whether its reply is true is the answer.
            is_kept: Do it later, if it cannot be done now.
        """
        try:
            self._catch_up()
            reply = self._send(command)
        except (BrokerConnectionError, StreamsError) as error:
            return self._failed(error, command, is_kept=is_kept)
        return Answer(Verdict.YES if reply else Verdict.NO)

    def answers(self, asked: Sequence[tuple[LockCommand, bool]]) -> list[Answer]:
        """`answer` to each command of *asked*, in one round trip; with each, whether it is kept."""
        if not asked:
            return []
        if len(asked) == 1:
            [(command, is_kept)] = asked
            return [self.answer(command, is_kept=is_kept)]
        try:
            self._catch_up()
            replies = self._send_many([command for command, _ in asked])
        except (BrokerConnectionError, StreamsError) as error:
            replies = [error] * len(asked)
        return [
            self._judged(reply, command, is_kept=is_kept)
            for reply, (command, is_kept) in zip(replies, asked, strict=True)
        ]

    def seconds_to_probe(self) -> float | None:
        """How long until it should be tried again; None when there is nothing to try."""
        if self.is_away:
            return max(self._probe_at_ms - clock.monotonic_ms(), 0) / 1000
        return 0.0 if self._is_suspected or self._kept else None

    def probe(self) -> None:
        """Find out whether it is back, if it is time for that, and do what was kept for it."""
        if self.seconds_to_probe() != 0:
            return
        try:
            self._catch_up()
        except (BrokerConnectionError, StreamsError) as error:
            self.logger.debug("The lock server %s still fails: %s", self.name, error)

    def close(self) -> None:
        """Close its connections; what was kept for it is forgotten, and its keys expire."""
        self._executor.close()

    def _judged(self, reply: Any, command: LockCommand, *, is_kept: bool) -> Answer:
        """The answer in *reply*, one of many."""
        if isinstance(reply, NoScriptError) and command.unabridged is not None:
            return self.answer(LockCommand(command.unabridged), is_kept=is_kept)
        if isinstance(reply, Exception):
            return self._failed(reply, command, is_kept=is_kept)
        return Answer(Verdict.YES if reply else Verdict.NO)

    def _failed(self, error: Exception, command: LockCommand, *, is_kept: bool) -> Answer:
        """The answer to *command* that is no reply but *error*."""
        if not isinstance(error, BrokerConnectionError):
            if is_kept:
                self.logger.warning("The lock server %s refused a release: %s", self.name, error)
            return Answer(Verdict.UNSENT, error)
        if is_kept:
            self._kept.append(command)
        is_unsent = isinstance(error, ConnectionFailed)
        return Answer(Verdict.UNSENT if is_unsent else Verdict.UNKNOWN, error)

    def _catch_up(self) -> None:
        """Make sure that it is not away, and has done what was kept for it.

        Raises:
            BrokerConnectionError: It is away, or fails again.
        """
        if self._is_suspected:
            self._probe()
        while self._kept:
            self._do_kept()

    def _probe(self) -> None:
        if not self._is_due():
            raise ConnectionFailed("it is away, and was not asked")
        with self._probing:
            if not self._is_suspected:  # another thread has probed meanwhile, and it answered
                return
            if not self._is_due():
                raise ConnectionFailed("it is away, and was not asked")
            # On a new connection: what an old one has brought, the server has read before this.
            self._executor.close()
            try:
                self._execute(_PING)
            except CommandFailed as error:
                self.logger.debug("The lock server %s refuses PING: %s", self.name, error)
            except BrokerConnectionError as error:
                self._note_absence(error)
                raise
            self._note_return()

    def _is_due(self) -> bool:
        return clock.monotonic_ms() >= self._probe_at_ms

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
            return self._execute(command)
        except (BrokerConnectionError, CommandFailed, ServerOutOfMemory) as error:
            self._note_failure(error)
            raise

    def _send_many(self, commands: Sequence[LockCommand]) -> list[Any]:
        try:
            replies = self._executor.execute_many([self._words(each) for each in commands])
        except BrokerConnectionError as error:
            self._note_failure(error)
            raise
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, NoScriptError):
                self._known.clear()
            elif isinstance(reply, Exception):
                self._note_failure(reply)
            elif command.unabridged is not None:
                self._known.add(command.words[1])
        return replies

    def _words(self, command: LockCommand) -> tuple[Any, ...]:
        # The whole script where it may not be known: sent again, it would come after the others.
        if command.unabridged is None or command.words[1] in self._known:
            return command.words
        return command.unabridged

    def _note_failure(self, error: Exception) -> None:
        self._events.tell(Event.LOCK_SERVER_FAILED, self.name)
        if isinstance(error, BrokerConnectionError):
            # Its other connections are no better, or would be told first what was sent last.
            self._executor.close()
            self._is_suspected = True
            self._known.clear()

    def _execute(self, command: LockCommand) -> Any:
        try:
            return self._executor.execute(*command.words)
        except NoScriptError:
            if command.unabridged is None:
                raise
            return self._executor.execute(*command.unabridged)

    def _note_absence(self, error: BrokerConnectionError) -> None:
        self._events.tell(Event.LOCK_SERVER_FAILED, self.name)
        pause_ms = min(FIRST_PAUSE_MS * 2 ** min(self._failed_probes, 10), LONGEST_PAUSE_MS)
        self._failed_probes += 1
        self._probe_at_ms = clock.monotonic_ms() + pause_ms
        was_away, self.is_away = self.is_away, True
        if not was_away:
            self.logger.warning("The lock server %s is away: %s", self.name, error)

    def _note_return(self) -> None:
        self._failed_probes = 0
        self._probe_at_ms = 0.0
        self._is_suspected = False
        was_away, self.is_away = self.is_away, False
        if was_away:
            self.logger.info("The lock server %s is back.", self.name)
