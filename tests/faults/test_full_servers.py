"""A server that has reached `maxmemory` and refuses whatever would store more."""

import os

import pytest
from dramatiq.errors import BrokerConnectionError

from dramatiq_streams import PartlyEnqueued, ServerOutOfMemory
from tests.conftest import StartServer
from tests.faults.conftest import Stage
from tests.faults.scene import READS_BLOCKED, Scene
from tests.support.waiting import wait_until


@pytest.fixture
def scene(stage: Stage, start_server: StartServer) -> Scene:
    """A scene on a server of its own that never evicts a key."""
    return stage(start_server(config=["maxmemory-policy noeviction"]))


def _fill(scene: Scene) -> None:
    """Leave no memory at all."""
    scene.client.config_set("maxmemory", 1)


def test_full_server_refuses_what_is_sent(scene: Scene) -> None:
    scene.send_notes(1)
    before = scene.stored()
    _fill(scene)

    with pytest.raises(ServerOutOfMemory):
        scene.actors.note.send("message")
    with pytest.raises(ServerOutOfMemory):
        scene.actors.note.send_with_options(args=("delayed",), delay=1)
    with pytest.raises(PartlyEnqueued) as caught:
        scene.send_notes(10)

    assert isinstance(caught.value, BrokerConnectionError)
    assert len(caught.value.unsent) == 10
    assert scene.stored() == before


def test_queued_messages_run_though_the_server_is_full(scene: Scene) -> None:
    scene.start_survivor(threads=1)
    scene.actors.hold.send("first")
    scene.wait_until_started("first")
    labels = {"first", *scene.send_notes(500)}
    _fill(scene)

    scene.journal.allow("go")
    scene.join(seconds=15)

    assert scene.journal.counts() == dict.fromkeys(labels, 1)


def test_worker_that_starts_on_a_full_server_runs_what_is_queued(scene: Scene) -> None:
    scene.start_survivor().stop()
    labels = scene.send_notes(20)
    _fill(scene)

    scene.start_survivor()

    scene.join(seconds=10)
    assert scene.journal.counts() == dict.fromkeys(labels, 1)


def test_leases_are_kept_and_recovered_though_the_server_is_full(scene: Scene) -> None:
    victim = scene.start_victim(prefetch=READS_BLOCKED)
    scene.actors.hold.send("message")
    scene.wait_until_started("message")
    scene.start_survivor()
    scene.wait_until_blocked(2)
    _fill(scene)

    victim.kill_worker()

    wait_until(
        lambda: scene.journal.pids("message", "started")[1:] == [os.getpid()],
        message="it was recovered",
    )
    scene.journal.allow("go")
    scene.join()
    assert scene.journal.counts() == {"message": 1}


def test_failing_messages_neither_block_a_full_server_nor_get_lost(scene: Scene) -> None:
    scene.start_survivor().stop()
    for number in range(4):
        scene.actors.fail.send(f"dead{number}")
        scene.actors.fail_once.send(f"retried{number}")
    labels = scene.send_notes(20)
    _fill(scene)

    scene.start_survivor(threads=2)

    try:
        wait_until(lambda: labels <= set(scene.journal.counts()), timeout=5)
    finally:
        scene.client.config_set("maxmemory", 0)
        scene.join(seconds=15)
    assert scene.dead_reasons() == ["failed"] * 4
    assert all(scene.journal.counts()[f"retried{number}"] >= 2 for number in range(4))
