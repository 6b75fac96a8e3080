"""Forwards delayed messages the moment they are due, while their consumer is blocked."""

from __future__ import annotations

from . import clock
from .queues import Queues
from .replies import Reading

#: Milliseconds to wait for a delayed message that is due and that the server cannot forward.
STALLED_MS = 100.0

#: Milliseconds to sleep for when nothing is delayed: another consumer may know better.
NOTHING_DUE_MS = 60_000.0


class Forwarding:
    """An `Alarm` on a second connection: what it forwards wakes a blocked consumer, any one."""

    def __init__(self, queue_name: str, queues: Queues) -> None:
        self._queue_name = queue_name
        self._queues = queues
        self._due_at_ms: float | None = None

    def expect(self, reading: Reading) -> None:
        """Note when the next message is due, as *reading* has found."""
        if reading.next_due_ms is None:
            self._due_at_ms = None
            return
        is_stalled = reading.next_due_ms == 0 and reading.forwarded == 0
        wait_ms = STALLED_MS if is_stalled else reading.next_due_ms
        self._due_at_ms = clock.monotonic_ms() + wait_ms

    def seconds_left(self) -> float:
        """Seconds until the next message is due."""
        if self._due_at_ms is None:
            return NOTHING_DUE_MS / 1000
        return max(self._due_at_ms - clock.monotonic_ms(), 0.0) / 1000

    def ring(self) -> None:
        """Forward what is due now."""
        self.expect(self._queues.read(self._queue_name, 0, shares=(), acks=()))
