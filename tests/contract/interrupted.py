"""A program that enqueues while its thread is interrupted at random, and reports what came of it.

Not in pytest's process: its hooks would be interrupted too, and fail the test.
"""

import contextlib
import json
import random
import sys
import threading
import time

from dramatiq.message import Message
from dramatiq.middleware.shutdown import Shutdown
from dramatiq.middleware.time_limit import TimeLimitExceeded
from dramatiq.threading import raise_thread_exception

from dramatiq_streams import StreamsBroker

SECONDS = 1.0


class Victim(threading.Thread):
    """Enqueues until it is told to stop, and survives every interrupt."""

    def __init__(self, broker: StreamsBroker, delay: int | None) -> None:
        super().__init__(daemon=True)
        self.broker = broker
        self.delay = delay
        self.begun = self.confirmed = self.interrupts = 0
        self.errors: list[str] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            with contextlib.suppress(TimeLimitExceeded, Shutdown):
                self._survive()

    def _survive(self) -> None:
        """One more frame, because the counting can be interrupted too."""
        while not self.stopping.is_set():
            try:
                self._enqueue()
            except (TimeLimitExceeded, Shutdown):
                self.interrupts += 1

    def _enqueue(self) -> None:
        while not self.stopping.is_set():
            self.begun += 1
            message: Message[None] = Message("default", "work", (self.begun,), {}, {})
            try:
                self.broker.enqueue(message, delay=self.delay)
            except Exception as error:
                self.errors.append(repr(error))
            self.confirmed += 1


def stale_replies(broker: StreamsBroker) -> list[str]:
    """What the idle connections answer that they were not asked."""
    found = []
    # Past `_ready`, which drops a connection whose stale reply has arrived already.
    for number, connection in enumerate(list(broker._process.executor._idle)):
        connection.send_command("PING", number)
        reply = connection.read_response()
        if reply != str(number).encode():
            found.append(repr(reply))
    return found


def main(url: str, namespace: str, delay: str) -> None:
    """Interrupt for `SECONDS`, then print what came of it."""
    sys.unraisablehook = lambda _: None  # an interrupt that hits a `__del__` is Python's to lose
    broker = StreamsBroker(url=url, namespace=namespace)
    victim = Victim(broker, int(delay) or None)
    victim.start()
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        raise_thread_exception(victim.ident, random.choice([TimeLimitExceeded, Shutdown]))
        victim.stopping.wait(random.uniform(0.001, 0.004))
    victim.stopping.set()
    victim.join(10)
    report = {
        "is_alive": victim.is_alive(),
        "begun": victim.begun,
        "confirmed": victim.confirmed,
        "interrupts": victim.interrupts,
        "errors": victim.errors,
        "stale": stale_replies(broker),
    }
    print(json.dumps(report))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
