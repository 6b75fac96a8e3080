"""A message on its last delivery runs alone, so that it cannot be condemned for another's crash.

When a process dies, everything it had fetched is delivered again and counts one delivery more,
though only one message may have killed it. Before a delivery that would be the last, the process
lets all else finish, and runs nothing beside it: if the process dies then, it was this message.
"""

from __future__ import annotations

import threading

from .messages import Entry


class Isolation:
    """Decides what may be handed out in this process, over all its queues."""

    def __init__(self, *, max_deliveries: int) -> None:
        self._max_deliveries = max_deliveries
        self._changed = threading.Condition()
        self._running: set[Entry] = set()
        self._suspect: Entry | None = None

    def admit(self, entry: Entry, *, timeout_ms: float) -> bool:
        """Whether *entry* may be handed out, waiting up to *timeout_ms* until it may."""
        with self._changed:
            if self._is_last_chance(entry) and self._suspect is None:
                self._suspect = entry
            is_admitted = self._changed.wait_for(
                lambda: self._may_run(entry), max(timeout_ms, 0) / 1000
            )
            if is_admitted:
                self._running.add(entry)
            return is_admitted

    def leave(self, entry: Entry) -> None:
        """Note that *entry* is settled, given back or lost: it no longer runs here."""
        if entry in self._running or entry is self._suspect:
            with self._changed:
                self._running.discard(entry)
                if entry is self._suspect:
                    self._suspect = None
                self._changed.notify_all()

    def _is_last_chance(self, entry: Entry) -> bool:
        # With one delivery only, every message would have to run alone.
        return 1 < self._max_deliveries <= entry.deliveries

    def _may_run(self, entry: Entry) -> bool:
        if self._suspect is None:
            if self._is_last_chance(entry):
                self._suspect = entry
            else:
                return True
        return entry is self._suspect and not self._running
