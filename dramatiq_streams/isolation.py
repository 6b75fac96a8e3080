"""A message on its last delivery runs alone, so that it cannot be condemned for another's crash.

When a process dies, everything it had fetched is delivered again and counts one delivery more,
though only one message may have killed it. Before a delivery that would be the last, the process
lets all else finish, and runs nothing beside it: if the process dies then, it was this message.
The server counts that delivery only when it begins, so a crash while it waits does not count.
"""

from __future__ import annotations

import threading

from .messages import Entry


class Isolation:
    """Decides what may be handed out in this process, over all its queues."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._running: set[Entry] = set()
        self._suspect: Entry | None = None

    @property
    def suspect(self) -> Entry | None:
        """The last delivery that runs alone or waits to: nothing else may be handed out."""
        return self._suspect

    def admit(self, entry: Entry) -> bool:
        """Whether *entry* may be handed out now.

        Once a last delivery was asked for, nothing else is admitted before it has left.
        """
        with self._lock:
            is_admitted = self._may_run(entry)
            if is_admitted:
                self._running.add(entry)
            return is_admitted

    def wait(self, suspect: Entry, *, is_ours: bool, timeout_ms: float) -> None:
        """Wait until *suspect* has left or, if it is the caller's to start, until it may.

        At most for *timeout_ms*.
        """
        with self._lock:
            self._changed.wait_for(
                lambda: self._suspect is not suspect or (is_ours and self._may_run(suspect)),
                max(timeout_ms, 0) / 1000,
            )

    def leave(self, entry: Entry) -> None:
        """Note that *entry* is settled, given back or lost: it no longer runs here."""
        with self._lock:
            self._running.discard(entry)
            if self._suspect is None:
                return  # Then nobody waits.
            if entry is self._suspect:
                self._suspect = None
            self._changed.notify_all()

    def _may_run(self, entry: Entry) -> bool:
        if self._suspect is None and entry.is_last:
            self._suspect = entry
        if self._suspect is None:
            return True
        return entry is self._suspect and self._running <= {entry}
