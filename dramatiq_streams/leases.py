"""Leases on deliveries: extended while their worker lives, recovered when they expire.

A lease is the idle time of a pending entry. The holder resets it every third of a lease for
everything it holds, running or only prefetched; an entry that idles longer is anybody's.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import clock
from .calls import Runs
from .keys import GROUP
from .messages import Entry
from .scope import Scope
from .scripts import Scripts

#: The most entries that one script call extends.
EXTEND_LIMIT = 500


class Leases:
    """The leases of every queue in a scope."""

    def __init__(self, runs: Runs, scope: Scope) -> None:
        self._scripts = Scripts(runs)
        self._scope = scope

    def extend(self, queue_name: str, held: Sequence[Entry]) -> list[Entry]:
        """Give this consumer a full lease again for each of *held*.

        Returns:
            The entries whose lease was lost. Their messages may already be running elsewhere.
        """
        lost: list[Entry] = []
        for start in range(0, len(held), EXTEND_LIMIT):
            lost += self._extend(queue_name, held[start : start + EXTEND_LIMIT])
        return lost

    def _extend(self, queue_name: str, held: Sequence[Entry]) -> list[Entry]:
        keys = self._scope.keys(queue_name)
        begun_ms = clock.monotonic_ms()
        # Before their deliveries are looked at: another thread may count a last one meanwhile.
        had_begun = [entry.has_begun for entry in held]
        positions = self._scripts.extend(
            lanes=keys.lanes,
            group=GROUP,
            consumer=self._scope.consumer,
            held=((entry.lane, entry.entry_id, entry.deliveries) for entry in held),
        )
        refused = [position - 1 for position in positions]
        for entry in set(held).difference(held[index] for index in refused):
            entry.leased_at_ms = begun_ms
        # A last delivery that was counted in between is refused, and is ours all the same.
        return [
            held[index] for index in refused if had_begun[index] or not held[index].is_beginning
        ]


def extend_interval_ms(lease_ms: int) -> float:
    """How often leases are extended: thrice in a lease, so that two beats may fail."""
    return lease_ms / 3
