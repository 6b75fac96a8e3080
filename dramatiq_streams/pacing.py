"""How much a worker holds: what its threads run, and what they begin until more can be there.

What is fetched waits behind everything that was fetched before it, whatever its lane, and nobody
else can have it. So nothing is fetched ahead of long tasks, and a hundred messages ahead of tasks
that take no time: a read costs a round trip, however few it brings.

Where tasks take equally long all threads come free at once, and a message that is urgent waits for
as long as a task takes. So their next tasks are spread: from then on a thread comes free every now
and then.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from . import clock

#: Milliseconds within which more is there, also on a busy machine: a thread that computes keeps
#: Python to itself for 5 ms, and another one may be next.
REFILL_MS = 10.0

#: Milliseconds over which messages are counted: longer than the reads that bring them.
WINDOW_MS = 20.0

#: Messages follow each other as if at least so many milliseconds lay between them.
SHORTEST_INTERVAL_MS = 0.1

#: The most milliseconds between the starts of two threads that came free at once.
LONGEST_SPACE_MS = 10.0

#: This share of the threads, and so many, hardly ever come free at once by chance.
MOST = 0.75
FEWEST_IN_STEP = 5

#: How much of the time between two messages is kept between two starts: not all of it, or they
#: would be kept slow by having been slow.
SPACE = 0.8


@dataclass(slots=True)
class Crew:
    """The threads of this process that run messages."""

    #: Zero while no Worker runs, and where its prefetch was chosen by the user: then that counts.
    threads: int = 0
    #: An idle consumer takes up to one message of each lane at once.
    lanes: int = 1

    def engage(self, threads: Iterable[int]) -> None:
        """Note how many *threads* each Worker of this process has, zero where that does not count.

        Which of them runs the messages of a queue is not known here.
        """
        counts = list(threads)
        self.threads = sum(counts) if all(counts) else 0


class Pace:
    """How fast the messages of one queue are done; its callers see to it that they take turns."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._interval_ms = WINDOW_MS
        self._done = 0
        self._begun_ms = 0.0
        self._last_ms = 0.0
        #: Of the last messages: when each was done, and how long that took.
        self._free: deque[tuple[float, float]] = deque()
        self._taken_at_ms = 0.0
        self._spread_until_ms = 0.0

    def note_taken(self, *, was_idle: bool) -> None:
        """Messages are held that were not; *was_idle* if there were no others."""
        self._taken_at_ms = clock.monotonic_ms()
        if was_idle:  # The time before tells nothing.
            self._begun_ms = self._last_ms = self._taken_at_ms
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
            self._note_free(now_ms, now_ms - taken_at_ms)

    def limit(self, prefetch: int, *, held: int) -> int:
        """How many messages to hold, those included that are *held* and run already.

        Returns:
            *prefetch* if the user has chosen that.
        """
        threads = self._crew.threads
        if not threads:
            return prefetch
        # Of so many the first may as well be fetched when its thread is free.
        ahead = max(int(REFILL_MS / self._current_ms()) - 1, 0)
        if not ahead and clock.monotonic_ms() < self._spread_until_ms:
            return held if self.space_ms() else min(held + 1, threads)
        return max(threads + ahead, self._crew.lanes)

    def space_ms(self) -> float:
        """Milliseconds until the next one of threads that came free at once may begin, or zero."""
        now_ms = clock.monotonic_ms()
        if now_ms >= self._spread_until_ms:
            return 0.0
        space_ms = min(SPACE * self._interval_ms, LONGEST_SPACE_MS)
        return max(self._taken_at_ms + space_ms - now_ms, 0.0)

    def _current_ms(self) -> float:
        """Milliseconds between two messages: of late, or by now if that is more."""
        return max(self._interval_ms, clock.monotonic_ms() - self._last_ms, SHORTEST_INTERVAL_MS)

    def _note_free(self, now_ms: float, took_ms: float) -> None:
        """A thread has come free; if most have at the same time, they are spread from now on."""
        most = max(math.ceil(self._crew.threads * MOST), FEWEST_IN_STEP)
        self._free.append((now_ms, took_ms))
        while len(self._free) > most:
            self._free.popleft()
        task_ms = self._crew.threads * self._interval_ms
        # Messages that took less come one by one because they come from elsewhere.
        were_long = min(took_ms for _, took_ms in self._free) > task_ms / 2
        is_together = len(self._free) == most and now_ms - self._free[0][0] < self._interval_ms / 2
        if were_long and is_together:
            # Some have begun together before this was known: they are spread the next time.
            self._spread_until_ms = now_ms + 2 * task_ms
