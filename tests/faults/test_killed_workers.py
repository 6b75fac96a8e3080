"""SIGKILL to worker processes: what they held is run by others, and a killer is stopped."""

import os

import pytest

from tests.faults.conftest import LEASE_MS, Stage
from tests.faults.scene import Scene
from tests.support.servers import Server
from tests.support.waiting import wait_until

#: A lease to expire, what it takes to notice, and a second for a busy machine.
NOTICED_SECONDS = LEASE_MS / 1000 + 2 + 1


def test_message_of_a_killed_worker_is_run_by_another(scene: Scene) -> None:
    command = scene.start_victim()
    scene.actors.hold.send("running")
    scene.wait_until_started("running")
    scene.start_survivor()

    victim = command.kill_worker()

    wait_until(
        lambda: scene.journal.pids("running", "started") == [victim, os.getpid()],
        timeout=NOTICED_SECONDS,
        message="another process runs it",
    )
    assert scene.deliveries() == [2]
    scene.journal.allow("go")
    scene.join()
    assert scene.journal.pids("running") == [os.getpid()]


def test_prefetched_messages_of_a_killed_worker_are_run_by_another(scene: Scene) -> None:
    command = scene.start_victim(prefetch=8)
    scene.actors.hold.send("running")
    prefetched = scene.send_notes(7)
    scene.wait_until_pending(8)

    victim = command.kill_worker()
    scene.journal.allow("go")
    scene.start_survivor()

    scene.join(seconds=NOTICED_SECONDS)
    assert scene.journal.counts() == dict.fromkeys({"running", *prefetched}, 1)
    assert victim not in {note.pid for note in scene.journal.notes() if note.event == "ran"}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_nothing_is_lost_when_processes_are_killed_under_load(scene: Scene) -> None:
    kills, prefetch = 4, 8
    labels = scene.send_notes(20_000)

    for kill in range(1, kills + 1):
        # dramatiq ends when one of its workers dies; this is its supervisor.
        command = scene.start_victim(processes=2, threads=4, prefetch=prefetch)
        goal = kill * len(labels) // (kills + 1)
        _wait_for_runs(scene, goal)
        command.kill_worker()
        scene.wait_for_end(command)
    scene.start_victim(processes=2, threads=4)

    scene.join(seconds=60)
    runs = scene.journal.counts()
    assert set(runs) == labels
    assert runs.total() - len(labels) <= kills * prefetch
    assert scene.pending() == []
    assert scene.dead_reasons() == []


def test_message_that_kills_its_worker_is_dead_lettered(stage: Stage, server: Server) -> None:
    scene = stage(server, max_deliveries=2)
    scene.actors.poison.send("poison")

    for death in (1, 2):
        command = scene.start_victim()
        scene.journal.allow("die")
        _wait_for_runs(scene, death)
        scene.wait_for_end(command)
    scene.actors.note.send("healthy")
    scene.start_victim()

    scene.join(seconds=10)
    assert scene.dead_reasons() == ["max_deliveries"]
    assert scene.journal.counts() == {"poison": 2, "healthy": 1}


def _wait_for_runs(scene: Scene, count: int) -> None:
    wait_until(
        lambda: scene.journal.counts().total() >= count,
        timeout=60,
        interval=0.1,
        message=f"{count} messages ran",
    )
