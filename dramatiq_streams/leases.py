"""Leases on deliveries: extended while their worker lives, recovered when they expire.

A lease is the idle time of a pending entry. The holder resets it every third of a lease for
everything it holds, running or only prefetched; an entry that idles longer is anybody's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from . import clock
from .keys import GROUP, RELEASED
from .messages import Entry, Recovered
from .scope import Scope
from .scripts import Runs, Scripts

#: The most entries that one script call extends.
EXTEND_LIMIT = 500

#: The most entries of each lane that one script call recovers; XAUTOCLAIM looks at ten times that.
RECOVER_LIMIT = 100

#: The most script calls that one round of recovery makes before it lets others have a turn.
RECOVER_CALLS = 20

_START = "0-0"


class Leases:
    """The leases of every queue in a scope."""

    def __init__(self, runs: Runs, scope: Scope) -> None:
        self._scripts = Scripts(runs)
        self._scope = scope
        self._cursors: dict[str, Sequence[str]] = {}

    def extend(self, queue_name: str, held: Sequence[Entry]) -> list[Entry]:
        """Give this consumer a full lease again for each of *held*.

        Returns:
            The entries whose lease was lost. Their messages may already be running elsewhere.
        """
        lost: list[Entry] = []
        for start in range(0, len(held), EXTEND_LIMIT):
            lost += self._extend(queue_name, held[start : start + EXTEND_LIMIT])
        return lost

    def recover(
        self, queue_name: str, *, lease_ms: int, max_deliveries: int, dead_ttl_ms: int
    ) -> Recovered:
        """Take back what has idled for *lease_ms*, for whoever reads next.

        What was delivered *max_deliveries* times already becomes a dead letter instead.
        """
        keys = self._scope.keys(queue_name)
        cursors = self._cursors.get(queue_name, (_START,) * len(keys.lanes))
        released = dead_lettered = 0
        for _ in range(RECOVER_CALLS):
            freed, given_up, *raw = self._scripts.recover(
                wake=keys.wake,
                dead=keys.dead,
                unique=keys.unique,
                unique_messages=keys.unique_messages,
                lanes=keys.lanes,
                group=GROUP,
                released=RELEASED,
                lease=lease_ms,
                cursors=cursors,
                limit=RECOVER_LIMIT,
                max_deliveries=max_deliveries,
                lane_names=self._scope.lanes.names,
                ttl=dead_ttl_ms,
            )
            released, dead_lettered = released + freed, dead_lettered + given_up
            cursors = [cursor.decode() for cursor in raw]
            self._cursors[queue_name] = cursors
            if all(cursor == _START for cursor in cursors):
                break
        return Recovered(released, dead_lettered)

    def _extend(self, queue_name: str, held: Sequence[Entry]) -> list[Entry]:
        keys = self._scope.keys(queue_name)
        begun_ms = clock.monotonic_ms()
        positions = self._scripts.extend(
            lanes=keys.lanes,
            group=GROUP,
            consumer=self._scope.consumer,
            held=((entry.lane, entry.entry_id, entry.deliveries) for entry in held),
        )
        lost = [held[position - 1] for position in positions]
        for entry in set(held).difference(lost):
            entry.leased_at_ms = begun_ms
        return lost


def extend_interval_ms(lease_ms: int) -> float:
    """How often leases are extended: thrice in a lease, so that two beats may fail."""
    return lease_ms / 3


def recover_interval_ms(lease_ms: int) -> float:
    """How often to look for expired leases: soon after one expires, and not all at once."""
    return min(max(lease_ms / 10, 100), 1_600) * random.uniform(0.8, 1.2)
