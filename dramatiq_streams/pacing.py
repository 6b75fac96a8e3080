"""How far ahead of its threads a worker fetches: less while tasks are long.

What is fetched waits behind everything that was fetched before it, whatever its lane, and nobody
else can have it. So a worker holds what its threads run, and what they will begin until more can
be there: nothing when a task takes long, all of dramatiq's prefetch when it takes no time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from . import clock

#: Milliseconds within which more is there, also on a busy machine.
REFILL_MS = 5.0

#: A longer time between two messages tells no more than this one.
LONGEST_INTERVAL_MS = 50.0

#: How much the last interval counts against all before it.
WEIGHT = 0.1


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
        self._interval_ms = LONGEST_INTERVAL_MS
        self._last_ms = 0.0

    def note_done(self) -> None:
        """A message is done."""
        now_ms = clock.monotonic_ms()
        interval_ms = min(now_ms - self._last_ms, LONGEST_INTERVAL_MS)
        self._interval_ms += (interval_ms - self._interval_ms) * WEIGHT
        self._last_ms = now_ms

    def limit(self, prefetch: int) -> int:
        """How many messages to hold, the running ones included; *prefetch* at the most."""
        if not self._crew.threads:
            return prefetch
        ahead = int(REFILL_MS / max(self._interval_ms, 0.001))
        return min(max(self._crew.threads + ahead, self._crew.lanes), prefetch)
