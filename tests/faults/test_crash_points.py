"""SIGKILL between two steps of a message's life, at the very instruction."""

import os
import signal

import pytest

from tests.faults.conftest import Stage
from tests.faults.scene import READS_BLOCKED, Scene
from tests.support.servers import Server


@pytest.mark.parametrize(
    ("die_at", "delay", "runs"),
    [
        pytest.param("after read", 50, 1, id="read and not yet heard of"),
        pytest.param("after XREADGROUP", None, 1, id="arrived and not yet heard of"),
        pytest.param("before_process_message", None, 1, id="about to start"),
        pytest.param("after_process_message", None, 2, id="between the body and the ack"),
        pytest.param("before ack", None, 2, id="about to send the ack"),
        pytest.param("after ack", None, 1, id="acknowledged and not yet told"),
    ],
)
def test_message_survives_a_death_on_its_way(
    scene: Scene, die_at: str, delay: int | None, runs: int
) -> None:
    command = scene.start_victim(die_at=die_at, prefetch=READS_BLOCKED)
    scene.wait_until_blocked()
    scene.journal.allow("die")

    scene.actors.note.send_with_options(args=("message",), delay=delay)
    scene.wait_for_death(command)
    scene.start_survivor()

    scene.join()
    assert scene.journal.counts()["message"] == runs
    assert scene.pending() == []
    assert scene.dead_reasons() == []


@pytest.mark.parametrize("die_at", ["before hand_over", "after hand_over"])
def test_retry_exists_once_when_its_worker_dies_around_the_hand_over(
    scene: Scene, die_at: str
) -> None:
    command = scene.start_victim(die_at=die_at)
    scene.journal.allow("die")

    message = scene.actors.fail_once.send("message")
    scene.wait_for_death(command)
    copies = scene.stored()
    scene.start_survivor()

    scene.join()
    assert copies == [message.message_id]
    assert scene.journal.counts()["message"] == 2
    assert scene.dead_reasons() == []


@pytest.mark.parametrize(("die_at", "runs"), [("before reject", 2), ("after reject", 1)])
def test_one_dead_letter_remains_when_a_worker_dies_around_the_rejection(
    scene: Scene, die_at: str, runs: int
) -> None:
    command = scene.start_victim(die_at=die_at)
    scene.journal.allow("die")

    scene.actors.fail.send("message")
    scene.wait_for_death(command)
    scene.start_survivor()

    scene.join()
    assert scene.journal.counts()["message"] == runs
    assert scene.dead_reasons() == ["failed"]


@pytest.mark.parametrize("die_at", ["before release", "after release"])
def test_prefetched_messages_survive_a_death_in_requeue(scene: Scene, die_at: str) -> None:
    command = scene.start_victim(die_at=die_at, prefetch=3)
    scene.actors.hold.send("running")
    prefetched = scene.send_notes(2)
    scene.wait_until_pending(3)
    scene.journal.allow("die")

    os.kill(command.pid, signal.SIGTERM)
    scene.wait_for_death(command)
    scene.journal.allow("go")
    scene.start_survivor()

    scene.join()
    assert scene.journal.counts() == dict.fromkeys({"running", *prefetched}, 1)


@pytest.mark.parametrize(
    ("max_deliveries", "runs", "dead"), [(5, 1, []), (1, 0, ["max_deliveries"])]
)
def test_recovery_holds_when_the_one_who_recovers_dies(
    stage: Stage, server: Server, max_deliveries: int, runs: int, dead: list[str]
) -> None:
    scene = stage(server, max_deliveries=max_deliveries)
    first = scene.start_victim()
    scene.actors.hold.send("message")
    scene.wait_until_started("message")
    second = scene.start_victim(die_at="after release_dead")
    scene.journal.allow("die")

    first.kill_worker()
    scene.wait_for_death(second)
    scene.journal.allow("go")
    scene.start_survivor()

    scene.join()
    assert scene.journal.counts()["message"] == runs
    assert scene.dead_reasons() == dead
