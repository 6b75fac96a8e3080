"""What is left on the server when workers have gone and messages are done: next to nothing."""

import os

import pytest

from dramatiq_streams.messages import Entry
from tests.conftest import StartServer
from tests.faults.conftest import Stage
from tests.faults.scene import Scene

#: `JANITOR_MESSAGES=1000000 tox -e faults -- tests/faults/test_janitor.py` sends more.
MESSAGES = int(os.environ.get("JANITOR_MESSAGES", "200000"))
CHUNK = 10_000


def _drain(scene: Scene, count: int) -> None:
    """Read and acknowledge so many messages, as consumers do, without running them."""
    queues = scene.broker._process.queues
    acks: list[Entry] = []
    while count > 0:
        reading = queues.read("default", 500, shares=(), acks=acks)
        acks = reading.entries
        count -= len(acks)
        assert acks
        assert reading.refused == []
    assert queues.acknowledge("default", acks) == []


def _memory(scene: Scene) -> int:
    """Bytes of all keys of the namespace."""
    keys = list(scene.client.scan_iter(match=f"*{scene.broker.namespace}*", count=1000))
    return sum(scene.client.memory_usage(key, samples=0) or 0 for key in keys)


@pytest.mark.slow
@pytest.mark.timeout(120 + MESSAGES / 2_000)
def test_namespace_is_nearly_empty_after_very_many_messages(
    stage: Stage, start_server: StartServer
) -> None:
    scene = stage(start_server())
    scene.broker._process.queues.ensure_groups("default")
    body = "x" * 200

    peak = 0
    for _ in range(MESSAGES // CHUNK):
        scene.broker.enqueue_many([scene.actors.note.message(body) for _ in range(CHUNK)])
        peak = max(peak, _memory(scene))
        _drain(scene, CHUNK)

    assert peak > 1_000_000
    assert _memory(scene) < 20_000


def test_namespace_is_as_small_after_many_workers_as_after_one(
    stage: Stage, start_server: StartServer
) -> None:
    scene = stage(start_server(), lease=60_000)
    labels: set[str] = set()
    sizes = []
    for number in range(2):
        labels |= scene.send_notes(50, prefix=f"{number}-")
        command = scene.start_victim(processes=2)
        scene.join(seconds=10)
        command.stop()
        sizes.append(_memory(scene))

    assert set(scene.journal.counts()) == labels
    assert scene.consumers() <= {"released"}
    assert scene.heartbeats() == {}
    assert max(sizes) - min(sizes) < 2_000
