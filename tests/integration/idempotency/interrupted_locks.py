"""Takes locks while its thread is interrupted at random, and reports what came of it.

Not in pytest's process: its hooks would be interrupted too, and fail the test.
"""

import contextlib
import json
import random
import sys
import threading
import time

from dramatiq.middleware.shutdown import Shutdown
from dramatiq.middleware.time_limit import TimeLimitExceeded
from dramatiq.threading import raise_thread_exception

from dramatiq_streams.middleware.idempotency.masters import Masters
from dramatiq_streams.middleware.idempotency.redlock import Redlock

#: Interrupts, and locks taken between them, that are enough; and seconds that are too many.
ENOUGH = 50
MOST_SECONDS = 20.0
LEASE_MS = 1_000


class Victim(threading.Thread):
    """Takes and releases a lock of its own until it is told to stop, and survives interrupts."""

    def __init__(self, masters: Masters) -> None:
        super().__init__(daemon=True)
        self.masters = masters
        self.taken = self.interrupts = 0
        self.errors: list[str] = []
        self.stopping = threading.Event()

    @property
    def lacks_some(self) -> bool:
        return min(self.taken, self.interrupts) < ENOUGH

    def run(self) -> None:
        while not self.stopping.is_set():
            with contextlib.suppress(TimeLimitExceeded, Shutdown):
                self._survive()

    def _survive(self) -> None:
        """One more frame, because the counting can be interrupted too."""
        while not self.stopping.is_set():
            try:
                self._take()
            except (TimeLimitExceeded, Shutdown):
                self.interrupts += 1

    def _take(self) -> None:
        number = 0
        while not self.stopping.is_set():
            number += 1
            key = f"{{locks}}:{self.interrupts}-{number}"
            lock = Redlock(key, masters=self.masters, lease_ms=LEASE_MS)
            try:
                self.taken += lock.acquire() and lock.extend()
            except Exception as error:
                self.errors.append(repr(error))
            finally:
                lock.release()


def main(*urls: str) -> None:
    """Interrupt until it is enough, then print what came of it."""
    sys.unraisablehook = lambda _: None  # an interrupt that hits a `__del__` is Python's to lose
    masters = Masters(urls)
    victim = Victim(masters)
    victim.start()
    deadline = time.monotonic() + MOST_SECONDS
    while victim.lacks_some and time.monotonic() < deadline:
        raise_thread_exception(victim.ident, random.choice([TimeLimitExceeded, Shutdown]))
        victim.stopping.wait(random.uniform(0.001, 0.02))
    victim.stopping.set()
    victim.join(10)
    last = Redlock("{locks}:last", masters=masters, lease_ms=LEASE_MS)
    report = {
        "is_alive": victim.is_alive(),
        "taken": victim.taken,
        "interrupts": victim.interrupts,
        "errors": victim.errors,
        "threads": sum("lock-server" in thread.name for thread in threading.enumerate()),
        "last": last.acquire() and last.extend(),
    }
    last.release()
    masters.close()
    print(json.dumps(report))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
