"""SIGKILL at each named point of a message's life, under load: each message ends exactly once.

Right after the death nothing is lost or doubled: each message is in one place on the server, or
was run. Then other workers go on, and the account is exact.
"""

import os
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import dramatiq
import pytest

from dramatiq_streams.options import DEFAULT_LEASE_MS
from tests.faults.conftest import LEASE_MS, Stage
from tests.faults.scene import Scene
from tests.support.servers import Server
from tests.support.waiting import wait_until

NOTES, RETRIES, DELAYS, FAILURES = 200, 40, 40, 10
THREADS = 4
#: Chosen, and not dramatiq's own: then long tasks do not keep it down.
PREFETCH = 2 * THREADS + 1


@dataclass(frozen=True, slots=True)
class Point:
    """An instant of a message's life: see `victim.py`, and what brings a worker there."""

    die_at: str
    #: Somebody dies before, and leaves messages to recover.
    on_host: str | None = None
    is_orphaned: bool = False
    is_stopping: bool = False


POINTS = {
    "about to read": Point("before read"),
    "after read before body": Point("after read"),
    "about to start": Point("before_process_message"),
    "mid-body": Point("body"),
    "after body before ack": Point("after_process_message"),
    "about to send acks": Point("before ack"),
    "acks sent and not yet told": Point("after ack"),
    "between a retry's decision and its hand-over": Point("before hand_over"),
    "after a retry's hand-over": Point("after hand_over"),
    "before a rejection": Point("before reject"),
    "after a rejection": Point("after reject"),
    "before requeue at shutdown": Point("before release", is_stopping=True),
    "after requeue at shutdown": Point("after release", is_stopping=True),
    "before recovery": Point("before tend", is_orphaned=True, on_host="elsewhere"),
    "during recovery": Point("after tend", is_orphaned=True, on_host="elsewhere"),
    "during the forward of delays": Point("after forward"),
    "before release_dead": Point("before release_dead", is_orphaned=True),
    "during release_dead": Point("after release_dead", is_orphaned=True),
    "before forget": Point("before forget", is_orphaned=True),
    "between heartbeats": Point("after beat"),
}


def _send(actor: dramatiq.Actor[Any, Any], labels: Iterable[str], **options: Any) -> dict[str, str]:
    """Enqueue a message for each of *labels*; the ids of the messages."""
    return {label: actor.send_with_options(args=(label,), **options).message_id for label in labels}


def _load(scene: Scene) -> dict[str, str]:
    """Enqueue some of everything; the ids of the messages by label."""
    actors = scene.actors
    sent = _send(actors.note, (f"note{number}" for number in range(NOTES)))
    sent |= _send(actors.fail_once, (f"retry{number}" for number in range(RETRIES)))
    sent |= _send(actors.fail, (f"fail{number}" for number in range(FAILURES)))
    for number in range(DELAYS):
        sent |= _send(actors.note, [f"delay{number}"], delay=20 * number)
    return sent


def _orphan(scene: Scene, host: str | None) -> dict[str, str]:
    """Have a worker die that holds a message."""
    command = scene.start_victim(host=host)
    sent = _send(scene.actors.hold, ["held"])
    scene.wait_until_started("held")
    command.kill()
    return sent


def _die(scene: Scene, point: Point) -> None:
    """Have one of two worker processes die at *point*, amid the load, and then the other."""
    if not point.is_stopping:
        scene.journal.allow("die")
    command = scene.start_victim(
        die_at=point.die_at,
        processes=2,
        threads=THREADS,
        prefetch=PREFETCH,
        wait=point.is_stopping,
    )
    if point.is_stopping:
        busy = 2 * THREADS
        wait_until(lambda: scene.journal.counts("started").total() == busy, message="busy")
        scene.wait_until_pending(2 * PREFETCH)
        scene.journal.allow("die")
        os.kill(command.pid, signal.SIGTERM)
    wait_until(lambda: scene.journal.pids("victim", "died"), timeout=15, message="it has died")
    command.kill()
    scene.journal.allow("go")


@pytest.mark.parametrize("name", POINTS)
def test_every_message_ends_once_when_a_worker_dies(
    stage: Stage, server: Server, name: str
) -> None:
    point = POINTS[name]
    # A long lease, unless it is to expire: all of these workers are neighbours.
    scene = stage(server, lease=LEASE_MS if point.on_host else DEFAULT_LEASE_MS)
    sent = _orphan(scene, point.on_host) if point.is_orphaned else {}
    if point.is_stopping:
        sent |= _send(scene.actors.hold, [f"busy{number}" for number in range(4 * THREADS)])
    sent |= _load(scene)

    _die(scene, point)
    at_death = Counter(scene.stored()) + Counter(scene.dead_ids())
    gone = {label for label, message_id in sent.items() if message_id not in at_death}
    ran_before = set(scene.journal.counts())
    in_flight = len(scene.pending())
    scene.start_survivor(threads=4)
    scene.join(seconds=20)

    assert set(at_death.values()) == {1}  # nothing is in two places
    assert gone <= ran_before  # and in none is only what was acknowledged
    runs = scene.journal.counts()
    due = Counter({label: 2 if label.startswith("retry") else 1 for label in sent})
    assert set(runs) - {"victim"} == set(due)
    assert due <= runs
    assert (runs - due).total() <= in_flight
    assert sorted(scene.dead_ids()) == sorted(
        message_id for label, message_id in sent.items() if label.startswith("fail")
    )
    assert scene.pending() == []
