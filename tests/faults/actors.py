"""The actors of these tests; the test's own process and the worker processes declare the same."""

import os
import signal
from dataclasses import dataclass
from typing import Any

import dramatiq

from tests.support.waiting import wait_until

from .journal import Journal


@dataclass(frozen=True, slots=True)
class Actors:
    """One of each, on one broker."""

    note: dramatiq.Actor[Any, Any]
    hold: dramatiq.Actor[Any, Any]
    fail: dramatiq.Actor[Any, Any]
    fail_once: dramatiq.Actor[Any, Any]
    poison: dramatiq.Actor[Any, Any]


def declare_actors(broker: dramatiq.Broker, journal: Journal) -> Actors:
    """Declare actors that note in *journal* what they do to the label they are called with."""

    def hold(label: str) -> None:
        """Run until the test allows `go`."""
        journal.note(label, "started")
        wait_until(lambda: journal.is_allowed("go"), timeout=40, message="allowed to go on")
        journal.note(label)

    def fail(label: str) -> None:
        journal.note(label)
        raise RuntimeError(f"{label} fails")

    def fail_once(label: str) -> None:
        journal.note(label)
        if len(journal.pids(label)) == 1:
            raise RuntimeError(f"{label} fails once")

    def poison(label: str) -> None:
        """Kill this process, once the test allows `die` anew."""
        wait_until(lambda: journal.use_up("die"), timeout=20, message="allowed to die")
        journal.note(label)
        os.kill(os.getpid(), signal.SIGKILL)

    def declare(deed: Any, **options: Any) -> dramatiq.Actor[Any, Any]:
        return dramatiq.actor(actor_name=deed.__name__, broker=broker, **options)(deed)

    def note(label: str) -> None:
        journal.note(label)

    return Actors(
        note=declare(note),
        hold=declare(hold),
        fail=declare(fail, max_retries=0),
        fail_once=declare(fail_once, min_backoff=10, max_backoff=10),
        poison=declare(poison),
    )
