"""Is this server, as it is now, a good place for messages? Facts, findings, and a round trip."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from dramatiq.errors import BrokerConnectionError

from . import clock
from .checks import Facts, Finding, Level, findings, read_facts
from .connections import check_server
from .errors import StreamsError, UnsupportedServer
from .executor import Executor
from .lanes import DEFAULT_LANES, Lanes
from .queues import Queues
from .scope import Scope

#: Milliseconds after which the server forgets what a killed round trip has left.
LEFTOVER_MS = 60_000


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found, worst first."""

    facts: Facts
    findings: list[Finding]
    #: Milliseconds for one message there and back; None when it did not come back.
    round_trip_ms: float | None


def diagnose(executor: Executor, namespace: str) -> Diagnosis:
    """Ask the server about itself, and send one message through a queue of its own.

    Raises:
        BrokerConnectionError: The server cannot be reached or cannot serve.
    """
    facts = read_facts(executor)
    found = [*findings(facts), *_unseen(facts)]
    try:
        check_server(executor)
        round_trip_ms = _round_trip(executor, namespace)
    except UnsupportedServer as error:
        return Diagnosis(facts, [_unsupported(error), *found], None)
    except (BrokerConnectionError, StreamsError) as error:
        # Out of memory, read-only, no permission: it answers, and does not store.
        return Diagnosis(facts, [_broken(error), *found], None)
    return Diagnosis(facts, found, round_trip_ms)


def _round_trip(executor: Executor, namespace: str) -> float:
    """Enqueue, read and acknowledge one message; what it needs is deleted afterwards."""
    name = f"doctor-{uuid.uuid4().hex}"
    scope = Scope(namespace, Lanes.of(DEFAULT_LANES), name)
    queues = Queues(executor, scope)
    keys = scope.keys(name)
    begun_ms = clock.monotonic_ms()
    try:
        queues.ensure_groups(name)
        expiries = [("PEXPIRE", key, LEFTOVER_MS) for key in (keys.wake, *keys.lanes)]
        executor.execute_many(expiries)
        queues.enqueue(name, scope.lanes.default_position, b"doctor")
        reading = queues.read(name, 1, shares=(), acks=())
        refused = queues.acknowledge(name, reading.entries)
        if [entry.body for entry in reading.entries] != [b"doctor"] or refused:
            raise StreamsError(f"A message came back as {reading.entries!r}, refused {refused!r}.")
        return clock.monotonic_ms() - begun_ms
    finally:
        executor.execute("DEL", keys.wake, *keys.lanes)


def _unseen(facts: Facts) -> Iterator[Finding]:
    """What nobody could look at, unless it is known otherwise that data is kept."""
    if facts.has_save_points is None and not facts.has_append_only_file:
        yield Finding(
            Level.WARNING,
            "settings",
            "This user may not see the server's settings: nobody knows whether it keeps anything on"
            " disk.",
            "Run this as a user who may use CONFIG GET and INFO.",
        )


def _unsupported(error: Exception) -> Finding:
    return Finding(Level.ERROR, "unsupported", str(error), "")


def _broken(error: Exception) -> Finding:
    return Finding(
        Level.ERROR,
        "round-trip",
        f"A message did not make the round trip: {error}",
        "Read the server's own words above; compare the permissions of its user, and its memory.",
    )
