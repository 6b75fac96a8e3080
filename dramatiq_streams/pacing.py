"""How much a worker holds: what its threads run, and what they begin until more can be there.

What is fetched waits behind everything that was fetched before it, whatever its lane, and nobody
else can have it. So nothing is fetched ahead of long tasks, and a hundred messages ahead of tasks
that take no time: a read costs a round trip, however few it brings.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from . import clock
from .spreading import Spread

#: Milliseconds within which more is there, also on a busy machine: a thread that computes keeps
#: Python to itself for 5 ms, and another one may be next.
REFILL_MS = 10.0

#: Milliseconds over which messages are counted: longer than the reads that bring them.
WINDOW_MS = 20.0

#: Messages follow each other as if at least so many milliseconds lay between them.
SHORTEST_INTERVAL_MS = 0.1

#: A thread may wait for so much of a task's length until it has the next one.
WASTE = 0.05

#: So many of the last reads tell how far away the server is: the fastest, or load would count. As
#: long as there are fewer, nothing is fetched ahead because of them.
READS = 16


class Shared(Protocol):
    """What this process holds of one of the queues that the same threads run."""

    @property
    def is_held_back(self) -> bool:
        """Whether it has no room because of the others."""

    def long_running(self) -> int:
        """How many of its messages have run for a while by now, and go on."""

    def look_again(self) -> None:
        """Let it look whether there is room now."""


@dataclass(slots=True)
class Crew:
    """The threads of this process that run messages of a queue, and others beside them."""

    #: Zero while no Worker runs, and where its prefetch was chosen by the user: then that counts.
    threads: int = 0
    #: The queues that the same Workers consume, and which of them this is.
    queues: Sequence[Shared] = ()
    own: Shared | None = None

    def engage(self, threads: Iterable[int], queues: Sequence[Shared], *, own: Shared) -> None:
        """Note how many *threads* each Worker of the queue has, zero where that does not count.

        They run messages of all *queues*, of which *own* is this one.
        """
        counts = list(threads)
        self.threads = sum(counts) if all(counts) else 0
        self.queues, self.own = queues, own

    def busy_elsewhere(self) -> int:
        """How many of the threads run long tasks of other queues."""
        return sum(other.long_running() for other in self._others())

    @property
    def is_contended(self) -> bool:
        """Whether another queue waits for a thread."""
        return any(other.is_held_back for other in self._others())

    def tell_others(self) -> None:
        """A thread has come free that was not expected to."""
        for other in self._others():
            other.look_again()

    def _others(self) -> Iterator[Shared]:
        return (each for each in self.queues if each is not self.own)


class Pace:
    """How fast the messages of one queue are done; its callers see to it that they take turns."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._spread = Spread()
        self._interval_ms = WINDOW_MS
        self._done = 0
        self._begun_ms = 0.0
        self._last_ms = 0.0
        self._reads_ms: deque[float] = deque(maxlen=READS)

    @property
    def is_chosen(self) -> bool:
        """Whether the user has chosen how many messages to hold."""
        return not self._crew.threads

    def note_read(self, took_ms: float) -> None:
        """A read has come back after *took_ms*; it did not block."""
        self._reads_ms.append(took_ms)

    def note_dry(self) -> None:
        """There was less to fetch than could be held."""
        self._spread.note_dry()

    def note_taken(self, *, was_idle: bool) -> None:
        """Messages are held that were not; *was_idle* if there were no others."""
        now_ms = clock.monotonic_ms()
        self._spread.note_taken(now_ms)
        if was_idle:  # The time before tells nothing.
            self._begun_ms = self._last_ms = now_ms
            self._done = 0

    def note_done(self, taken_at_ms: float) -> None:
        """A message is done that was fetched at *taken_at_ms*."""
        now_ms = clock.monotonic_ms()
        self._last_ms = now_ms
        self._done += 1
        elapsed_ms = now_ms - self._begun_ms
        if elapsed_ms >= WINDOW_MS:
            self._interval_ms = elapsed_ms / self._done
            self._begun_ms = now_ms
            self._done = 0
        if self._interval_ms > REFILL_MS / 2:
            self._spread.note_free(
                now_ms,
                now_ms - taken_at_ms,
                threads=self._crew.threads,
                interval_ms=self._interval_ms,
                read_ms=self._read_ms(),
            )

    def limit(self, prefetch: int, *, held: int) -> int:
        """How many messages to hold, those included that are *held* and run already.

        Returns:
            *prefetch* if the user has chosen that.
        """
        threads = self._crew.threads
        if not threads:
            return prefetch
        free = threads - self._crew.busy_elsewhere()
        if free <= 0:
            return 0
        limit = free + self._ahead(threads)
        if self._spread.is_on:
            return held if self._spread.left_ms() else min(held + 1, limit)
        return limit

    def space_ms(self) -> float:
        """Milliseconds after which there may be room though nothing was done; zero if not."""
        return self._spread.left_ms()

    def _ahead(self, threads: int) -> int:
        """How many messages to hold that none of the *threads* runs yet."""
        # Between two messages: of late, or by now if all threads are at work for longer.
        task_ms = clock.monotonic_ms() - self._last_ms
        between_ms = max(self._interval_ms, task_ms / threads, SHORTEST_INTERVAL_MS)
        # Of so many the first may as well be fetched when its thread is free.
        ahead = max(int(REFILL_MS / between_ms) - 1, 0)
        read_ms = self._read_ms()
        if len(self._reads_ms) == READS and read_ms > WASTE * threads * between_ms:
            ahead = max(ahead, math.ceil(read_ms / between_ms))
        return ahead

    def _read_ms(self) -> float:
        """How long a message takes to come: its read is sent when the one before is back."""
        return 2 * min(self._reads_ms, default=0.0)
