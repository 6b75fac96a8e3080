"""The actors of these tests; the test's own process and the worker processes declare the same."""

import ctypes
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dramatiq

from tests.support.waiting import wait_until

from .journal import Journal

#: How a process may end that does not want to.
CRASHES: dict[str, Callable[[], object]] = {
    "exit": lambda: os._exit(1),
    "segfault": lambda: ctypes.string_at(0),
    "out of memory": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


@dataclass(frozen=True, slots=True)
class Actors:
    """One of each, on one broker."""

    note: dramatiq.Actor[Any, Any]
    hold: dramatiq.Actor[Any, Any]
    hold_and_fail: dramatiq.Actor[Any, Any]
    hold_and_fail_once: dramatiq.Actor[Any, Any]
    fail: dramatiq.Actor[Any, Any]
    fail_once: dramatiq.Actor[Any, Any]
    poison: dramatiq.Actor[Any, Any]
    starve: dramatiq.Actor[Any, Any]


@dataclass(frozen=True, slots=True)
class _Deeds:
    """What the actors do: they note in *journal* what they do to the label they are called with."""

    journal: Journal

    def note(self, label: str) -> None:
        self.journal.note(label)

    def hold(self, label: str) -> None:
        """Run until the test allows `go`."""
        self.journal.note(label, "started")
        wait_until(lambda: self.journal.is_allowed("go"), timeout=40, message="allowed to go on")
        self.journal.note(label)

    def hold_and_fail(self, label: str) -> None:
        self.hold(label)
        raise RuntimeError(f"{label} fails")

    def hold_and_fail_once(self, label: str) -> None:
        self.hold(label)
        if len(self.journal.pids(label)) == 1:
            raise RuntimeError(f"{label} fails once")

    def fail(self, label: str) -> None:
        self.journal.note(label)
        raise RuntimeError(f"{label} fails")

    def fail_once(self, label: str) -> None:
        self.journal.note(label)
        if len(self.journal.pids(label)) == 1:
            raise RuntimeError(f"{label} fails once")

    def poison(self, label: str, how: str = "out of memory") -> None:
        """End this process, once the test allows `die` anew."""
        self.journal.note(label, "started")
        wait_until(lambda: self.journal.use_up("die"), timeout=20, message="allowed to die")
        self.journal.note(label)
        CRASHES[how]()

    def starve(self, label: str, seconds: int) -> None:
        """Keep the interpreter's lock for so long, in one call of a C function, the first time."""
        self.journal.note(label, "started")
        if len(self.journal.pids(label, "started")) == 1:
            ctypes.PyDLL(None).sleep(seconds)
        self.journal.note(label)


def declare_actors(broker: dramatiq.Broker, journal: Journal) -> Actors:
    """Declare the actors on *broker*."""
    deeds = _Deeds(journal)

    def declare(deed: Callable[..., None], **options: Any) -> dramatiq.Actor[Any, Any]:
        return dramatiq.actor(actor_name=deed.__name__, broker=broker, **options)(deed)

    return Actors(
        note=declare(deeds.note),
        hold=declare(deeds.hold),
        hold_and_fail=declare(deeds.hold_and_fail, max_retries=0),
        hold_and_fail_once=declare(deeds.hold_and_fail_once, min_backoff=10, max_backoff=10),
        fail=declare(deeds.fail, max_retries=0),
        fail_once=declare(deeds.fail_once, min_backoff=10, max_backoff=10),
        poison=declare(deeds.poison),
        starve=declare(deeds.starve),
    )
