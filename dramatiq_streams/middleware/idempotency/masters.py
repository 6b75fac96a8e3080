"""The lock servers: one command for all of them, and what a quorum says to it.

One master is asked in the caller's thread. Of several, each has a thread of its own for as long as
the process uses them: none is started for a call, and none waits for another.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from queue import Empty
from typing import Any

import redis

from ... import clock
from ...connections import Connections
from ...errors import InvalidOption
from ...events import Events
from .master import Master
from .master_thread import Answers, MasterThread
from .votes import LockCommand, Votes, quorum_of

DEFAULT_MASTER_TIMEOUT_MS = 100
LONGEST_MASTER_TIMEOUT_MS = 60_000


class Masters:
    """Servers that are independent of each other, and that grant locks together.

    Nothing connects before the first command, and each process connects by itself. An odd number
    is best: of four, as many may fail as of three.

    Args:
        servers: URLs as `StreamsBroker` takes them, or clients, whose parameters are copied.
        master_timeout: Milliseconds that a master has to connect, and again to reply.
        events: Hears of failures and locks.

    Raises:
        InvalidOption: No servers, one of them twice, or an option that is not possible.
    """

    def __init__(
        self,
        servers: Sequence[str | redis.Redis],
        *,
        master_timeout: int = DEFAULT_MASTER_TIMEOUT_MS,
        events: Events | None = None,
    ) -> None:
        self.events = events or Events()
        self._is_heard = events is not None
        self.timeout_ms = _checked_timeout(master_timeout)
        self._servers = _checked_servers(servers)
        self._all = [_connections_of(server) for server in self._servers]
        self.names = [connections.address for connections in self._all]
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated:
            raise InvalidOption(f"masters names {repeated[0]} twice: each master has one vote.")
        self.quorum = quorum_of(len(self._all))
        self._crews: dict[int, _Crew] = {}

    def __len__(self) -> int:
        return len(self._all)

    def heard_by(self, events: Events) -> Masters:
        """The same servers, with threads and connections of its own, that tell *events*.

        One that tells others already is left as it is.
        """
        if self._is_heard:
            return self
        return Masters(self._servers, master_timeout=self.timeout_ms, events=events)

    def ask(
        self,
        command: LockCommand,
        *,
        among: Iterable[int] | None = None,
        is_kept: bool = False,
        within_ms: float | None = None,
    ) -> Votes:
        """What the masters say to *command*, as soon as a quorum has decided.

        Args:
            command: The same for all.
            among: The numbers of those to ask. Default: all.
            is_kept: Those that are away get it when they are back.
            within_ms: How long several are waited for. Default: two timeouts.
        """
        asked = tuple(range(len(self))) if among is None else tuple(among)
        timeout_ms = 2 * self.timeout_ms if within_ms is None else within_ms
        return self._crew.ask(command, asked, is_kept=is_kept, timeout_ms=timeout_ms)

    def ask_many(self, questions: Sequence[tuple[LockCommand, Sequence[int]]]) -> list[Votes]:
        """As `ask`, each command with the numbers of those to ask, all of them at once."""
        if not questions:
            return []
        return self._crew.ask_many(questions, timeout_ms=2 * self.timeout_ms)

    def tell(self, command: LockCommand, *, among: Iterable[int] | None = None) -> None:
        """As `ask`, kept for those that are away, without waiting for more than one master."""
        self._crew.tell(command, tuple(range(len(self))) if among is None else tuple(among))

    def close(self) -> None:
        """End this process's threads and connections; a later command begins anew."""
        crew = self._crews.pop(os.getpid(), None)
        if crew is not None:
            crew.close(timeout=5 * self.timeout_ms / 1000)

    @property
    def _crew(self) -> _Crew:
        # No lock: a fork could copy it while it is held. `setdefault` is atomic.
        pid = os.getpid()
        found = self._crews.get(pid)
        if found is None:
            made = _Crew(self._all, self.names, timeout_ms=self.timeout_ms, events=self.events)
            found = self._crews.setdefault(pid, made)
        return found


class _Crew:
    """One process's masters, and their threads if there are several."""

    def __init__(
        self,
        servers: Sequence[Connections],
        names: Sequence[str],
        *,
        timeout_ms: float,
        events: Events,
    ) -> None:
        masters = [
            Master(name, each.quick(timeout_ms=timeout_ms), events=events)
            for name, each in zip(names, servers, strict=True)
        ]
        self._only = masters[0] if len(masters) == 1 else None
        self._threads = [MasterThread(number, each) for number, each in enumerate(masters)]

    def ask(
        self, command: LockCommand, asked: Sequence[int], *, is_kept: bool, timeout_ms: float
    ) -> Votes:
        [votes] = self.ask_many([(command, asked)], is_kept=is_kept, timeout_ms=timeout_ms)
        return votes

    def ask_many(
        self,
        questions: Sequence[tuple[LockCommand, Sequence[int]]],
        *,
        is_kept: bool = False,
        timeout_ms: float,
    ) -> list[Votes]:
        every = [Votes(len(self._threads), asked) for _, asked in questions]
        if self._only is not None:
            pairs = zip(every, questions, strict=True)
            some = [(votes, command) for votes, (command, asked) in pairs if asked]
            answers = self._only.answers([(command, is_kept) for _, command in some])
            for (votes, _), answer in zip(some, answers, strict=True):
                votes.add(0, answer)
            return every
        deadline_ms = clock.monotonic_ms() + timeout_ms
        submitted = [self._submit(*question, is_kept=is_kept) for question in questions]
        for votes, answers_to_it in zip(every, submitted, strict=True):
            _collect(votes, answers_to_it, deadline_ms=deadline_ms)
        return every

    def tell(self, command: LockCommand, asked: Sequence[int]) -> None:
        for number in asked:
            if self._only is not None:
                self._only.answer(command, is_kept=True)
            else:
                self._threads[number].submit(command, is_kept=True)

    def close(self, *, timeout: float) -> None:
        for thread in self._threads:
            thread.close(timeout=timeout)

    def _submit(self, command: LockCommand, asked: Sequence[int], *, is_kept: bool) -> Answers:
        answers: Answers = Answers()
        for number in asked:
            self._threads[number].submit(command, is_kept=is_kept, answers=answers)
        return answers


def _collect(votes: Votes, answers: Answers, *, deadline_ms: float) -> None:
    """Add *answers* to *votes*, as they come, until a quorum has decided."""
    while not (votes.is_complete or votes.is_yes or votes.is_no):
        left_ms = max(deadline_ms - clock.monotonic_ms(), 0)
        try:
            votes.add(*answers.get(timeout=left_ms / 1000))
        except Empty:
            break


def _connections_of(server: str | redis.Redis) -> Connections:
    if isinstance(server, str):
        return Connections(url=server, client=None, parameters={})
    return Connections(url=None, client=server, parameters={})


def _checked_servers(servers: Any) -> Sequence[str | redis.Redis]:
    is_sequence = isinstance(servers, Sequence) and not isinstance(servers, str | bytes)
    are_known = is_sequence and all(isinstance(each, str | redis.Redis) for each in servers)
    if not servers or not are_known:
        raise InvalidOption.of("masters", servers, "a list of at least one URL or redis.Redis")
    return servers  # type: ignore[no-any-return]


def _checked_timeout(timeout: object) -> int:
    is_whole = isinstance(timeout, int) and not isinstance(timeout, bool)
    if not is_whole or not 1 <= timeout <= LONGEST_MASTER_TIMEOUT_MS:  # type: ignore[operator]
        allowed = f"a whole number of milliseconds from 1 to {LONGEST_MASTER_TIMEOUT_MS}"
        raise InvalidOption.of("master_timeout", timeout, allowed)
    return timeout  # type: ignore[return-value]
