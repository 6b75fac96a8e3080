"""One thread per process: extends leases, recovers expired ones, expires dead letters.

It knows when, never what. It has a connection of its own, so that neither long actors nor blocked
reads can keep it from extending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from dramatiq.errors import BrokerConnectionError
from dramatiq.logging import get_logger

from . import clock
from .errors import StreamsError
from .outages import Outages

#: After a failure a duty is tried again this soon, unless its interval is shorter.
RETRY_MS = 1_000.0

#: Seconds that `stop` waits for a duty that is under way.
STOP_SECONDS = 5.0


@dataclass(slots=True)
class Duty:
    """Something to do again and again; `interval_ms` is asked anew each time."""

    name: str
    run: Callable[[], None]
    interval_ms: Callable[[], float]
    due_at_ms: float = field(default=0.0)


class Maintenance:
    """Runs *duties* in their order, each at its interval, until it is stopped."""

    def __init__(self, duties: list[Duty], outages: Outages) -> None:
        self.logger = get_logger(__name__, type(self))
        self._duties = duties
        self._outages = outages
        self._refused: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="dramatiq-streams-maintenance", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, *, wait: bool = True) -> None:
        """Stop the thread; *wait* a little for a duty that is under way."""
        self._stopping.set()
        if wait and self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(STOP_SECONDS)

    def run_once(self) -> float:
        """Run each duty that is due; returns the milliseconds until the next one is."""
        for duty in self._duties:
            if self._stopping.is_set():
                break
            if duty.due_at_ms <= clock.monotonic_ms():
                self._attend(duty)
        next_ms = min(duty.due_at_ms for duty in self._duties)
        return max(next_ms - clock.monotonic_ms(), 1.0)

    def _run(self) -> None:
        wait_ms = 0.0
        while not self._stopping.wait(wait_ms / 1000):
            wait_ms = self.run_once()

    def _attend(self, duty: Duty) -> None:
        interval_ms = duty.interval_ms()
        try:
            duty.run()
        except BrokerConnectionError as error:
            interval_ms = min(interval_ms, RETRY_MS)
            self._outages.note_failure(duty.name, error)
        except StreamsError as error:
            interval_ms = min(interval_ms, RETRY_MS)
            self._outages.note_success(duty.name)  # The server is there, and refuses.
            self._complain(duty.name, error)
        except Exception:
            # The thread must live: without it every lease of this process would be lost.
            interval_ms = min(interval_ms, RETRY_MS)
            self.logger.exception("Unexpected failure: %s. It will be tried again.", duty.name)
        else:
            self._outages.note_success(duty.name)
            self._refused.pop(duty.name, None)
        duty.due_at_ms = clock.monotonic_ms() + interval_ms

    def _complain(self, deed: str, error: StreamsError) -> None:
        """Log what the server refuses, unless it is the same again."""
        if self._refused.get(deed) != str(error):
            self._refused[deed] = str(error)
            self.logger.warning("Cannot %s, which is tried again: %s", deed, error)
