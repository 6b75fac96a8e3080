"""When threads begin that came free at once: one after the other, if their tasks are long.

Tasks that take equally long and began together end together too, again and again, and meanwhile no
thread is free: a message that is urgent waits for as long as a task takes. So their next tasks are
spread, and from then on a thread comes free every now and then. What is left of that by chance
after a while is mended where tasks take equally long.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise

from . import clock

#: The most milliseconds between the starts of two threads that came free at once, and of all.
LONGEST_SPACE_MS = 10.0
LONGEST_SPREAD_MS = 100.0

#: How much of the time between two messages is kept between two starts: not all of it, or they
#: would be kept slow by having been slow.
SPACE = 0.8

#: This share of the threads, and so many, hardly ever come free at once by chance.
MOST = 0.75
FEWEST_IN_STEP = 5

#: So many times as many tell whether tasks take equally long.
ALIKE = 2

#: One of so many may take longer all the same, on a busy machine.
STRAGGLERS = 6

#: With so many times as many messages in all, tasks that take equally long are not the only ones.
ONLY = 1.5

#: So many times the time between two messages is too long a time without a free thread.
WIDE = 2.0


class Spread:
    """The threads that run messages of one queue; its callers see to it that they take turns."""

    def __init__(self) -> None:
        #: Of the last long messages: when each was done, how long that took, and its number.
        self._free: deque[tuple[float, float, int]] = deque()
        self._number = 0
        self._taken_at_ms = 0.0
        self._until_ms = 0.0
        self._space_ms = 0.0

    @property
    def is_on(self) -> bool:
        """Whether threads begin one after the other, for now."""
        return clock.monotonic_ms() < self._until_ms

    def left_ms(self) -> float:
        """Milliseconds until the next one may begin; zero when it may, or all may."""
        now_ms = clock.monotonic_ms()
        if now_ms >= self._until_ms:
            return 0.0
        return max(self._taken_at_ms + self._space_ms - now_ms, 0.0)

    def note_taken(self, now_ms: float) -> None:
        """Some have begun."""
        self._taken_at_ms = now_ms

    def note_dry(self) -> None:
        """There was less to fetch than could be held: nobody keeps the threads at work."""
        self._until_ms = 0.0
        self._free.clear()

    def note_free(
        self, now_ms: float, took_ms: float, *, threads: int, interval_ms: float, read_ms: float
    ) -> None:
        """A thread has come free; if they do not come free evenly, they are spread from now on.

        Args:
            took_ms: How long its message took.
            interval_ms: From one message to the next.
            read_ms: How long it takes to fetch one: spread, they are fetched one by one.
        """
        task_ms = threads * interval_ms
        self._until_ms = min(self._until_ms, now_ms + 2 * task_ms)  # if tasks are shorter by now
        self._number += 1
        if took_ms < task_ms / 2:  # It came and went while the others were at work.
            return
        most = max(math.ceil(threads * MOST), FEWEST_IN_STEP)
        self._free.append((now_ms, took_ms, self._number))
        while len(self._free) > ALIKE * most:
            self._free.popleft()
        self._space_ms = min(
            SPACE * interval_ms, LONGEST_SPACE_MS, LONGEST_SPREAD_MS / max(threads, 1)
        )
        if read_ms < self._space_ms and (
            self._are_in_step(most, interval_ms) or self._are_uneven(ALIKE * most, interval_ms)
        ):
            # Some have begun together before this was known: they are spread the next time.
            self._until_ms = now_ms + 2 * task_ms

    def _are_in_step(self, count: int, interval_ms: float) -> bool:
        """Whether so many threads have come free at once."""
        times = [now_ms for now_ms, _, _ in self._free][-count:]
        return len(times) == count and times[-1] - times[0] < interval_ms / 2

    def _are_uneven(self, count: int, interval_ms: float) -> bool:
        """Whether none came free for long, though of so many tasks each took equally long.

        Where each takes its own time, spread threads would not stay so, and wait again and again.
        """
        tooks = sorted(took_ms for _, took_ms, _ in self._free)
        if len(tooks) < count or tooks[-1 - count // STRAGGLERS] - tooks[0] >= interval_ms / 2:
            return False
        if self._free[-1][2] - self._free[0][2] > ONLY * (count - 1):
            return False  # Those in between are short, and would wait for nothing.
        gaps = (later - earlier for (earlier, *_), (later, *_) in pairwise(self._free))
        return max(gaps) > WIDE * interval_ms
