"""A process that sends messages of every kind until it is told to stop, and then empties its spool.

It may be killed at any moment; the next one goes on with the same spool.
"""

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from dramatiq.errors import BrokerConnectionError, ConnectionClosed

from dramatiq_streams import draining

from .crew import LANES, QUEUES, Crew, Settings
from .journal import Journal
from .schedule import LEASE

#: As soon as this file is there, nothing new is sent.
STOP = "stop-sending"
#: The journal of what may be cancelled.
WISHES = "wishes"

_DRAIN_SECONDS = 60.0

#: So many at once that workers fetch more than they can begin.
_BURST = 40

#: What is sent, and how often.
_MIX = {
    "quick": 40,
    "slow": 8,
    "long": 0.4,
    "flaky": 8,
    "failing": 4,
    "poison": 0.15,
    "delayed": 15,
    "cancelled": 12,
    "stale": 4,
    "perishable": 4,
    "parent": 4,
    "many": 1.5,
}


def main() -> None:
    """Send, drain and end."""
    settings = Settings.of_environment()
    journal = settings.journal()
    wishes = Journal(Path(settings.directory), settings.who, name=WISHES)
    crew = Crew(settings.broker(), journal)
    if settings.spool is not None:
        _note_doubts(journal)
    random = Random(f"{settings.seed} {settings.who}")
    journal.note("begins to send")
    for messages, delay, facts in _batches(random, crew):
        if (Path(settings.directory) / STOP).exists():
            break
        if facts.get("to_cancel"):
            wishes.note("wish", id=messages[0].message_id)
        try:
            crew.send(messages, delay=delay, **facts)
        except BrokerConnectionError:
            time.sleep(0.2)
        time.sleep(random.expovariate(settings.rate))
    _drain(crew, settings)
    journal.note("has sent all")


def _batches(random: Random, crew: Crew) -> Iterator[tuple[list[Any], int | None, dict[str, Any]]]:
    """What to send next: messages, the delay of all of them, and what else to note."""
    while True:
        (name,) = random.choices(list(_MIX), list(_MIX.values()))
        kind = name if name in crew.actors else "work"
        count = _BURST if name == "many" else 1
        options: dict[str, Any] = {"queue": random.choice(QUEUES)}
        if random.random() < 0.5:
            options["lane"] = "low" if name == "cancelled" else random.choice(LANES)
        messages = [crew.message(kind, _seconds(name, random), **options) for _ in range(count)]
        yield messages, _delay(name, random), {"to_cancel": True} if name == "cancelled" else {}


def _seconds(name: str, random: Random) -> float:
    if name == "long":
        return LEASE + 2
    if name == "slow":
        return random.uniform(0.3, 2.0)
    return random.uniform(0.0, 0.5 if name == "many" else 0.05)


def _delay(name: str, random: Random) -> int | None:
    if name == "delayed":
        return random.randrange(100, 8_000)
    if name == "cancelled":
        return random.choice((None, 1_000, 4_000, 8_000))
    return random.randrange(1_000, 3_000) if name == "stale" else None


def _note_doubts(journal: Journal) -> None:
    """Note when a reply was lost: what was being sent goes to the spool, and may be there twice."""
    begin_outage = draining.Drain.begin_outage

    def noting(self: draining.Drain, error: Exception) -> None:
        if threading.current_thread() is threading.main_thread():
            journal.note("spooling", is_in_doubt=isinstance(error, ConnectionClosed))
        begin_outage(self, error)

    vars(draining)["Drain"].begin_outage = noting


def _drain(crew: Crew, settings: Settings) -> None:
    """Wait until the spool is empty; without one there is nothing to wait for."""
    process = crew.broker._process
    deadline = time.monotonic() + _DRAIN_SECONDS
    if process._drain is not None and process._spool is not None:
        process._drain.start()
        while process._spool.size()[0]:
            if time.monotonic() > deadline:
                sys.exit("the spool is not drained")
            time.sleep(0.05)
    crew.broker.close()


if __name__ == "__main__":
    main()
