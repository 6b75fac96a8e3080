"""The master dies, or hands over, under load: sends and workers go on by themselves."""

import time
from collections.abc import Callable, Iterator

import dramatiq.errors
import pytest
import redis

from tests.faults.conftest import Stage
from tests.faults.scene import Scene
from tests.faults.test_disturbed_servers import sending
from tests.support.sentinels import SERVICE, Deployment
from tests.support.waiting import wait_until

#: Within so many seconds a send has been taken and has run again.
BOUND = 10.0


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    with Deployment() as started:
        yield started


def kill_master(deployment: Deployment) -> None:
    deployment.master.kill()


def hand_over(deployment: Deployment) -> None:
    deployment.ask(deployment.sentinels[0], "FAILOVER", SERVICE)


@pytest.mark.parametrize("fail_over", [kill_master, hand_over])
def test_sends_and_workers_go_on_by_themselves(
    stage: Stage, deployment: Deployment, fail_over: Callable[[Deployment], None]
) -> None:
    scene = _scene(stage, deployment)
    # As a user has it: dramatiq waits for three seconds before it consumes again.
    scene.start_victim(processes=2, environment={"dramatiq_restart_delay": "3000"})

    with sending(scene) as (sent, _):
        _wait_for_more(scene, 100)
        begun, sent_before = time.monotonic(), len(sent)
        fail_over(deployment)
        deployment.wait_for_failover()
        wait_until(lambda: _is_on_new_master(scene, deployment), message="this process has moved")
        on_new_master = _send(scene, "first-on-the-new-master")
        _wait_until_ran(scene, on_new_master, seconds=BOUND - (time.monotonic() - begun))
        taken = time.monotonic() - begun
        rate = (len(sent) - sent_before) / taken
        _wait_for_more(scene, 100)

    scene.join(seconds=30)
    assert taken < BOUND
    assert scene.dead_reasons() == []
    assert scene.pending() == []
    # What the old master took last may never have reached the replica: the loss window. In order
    # or not, it ends when the senders learn of the new master, a second later at most.
    lost = sent - set(scene.journal.counts())
    assert len(lost) < (50 if fail_over is kill_master else rate * 3)


def test_message_that_runs_during_a_failover_is_acknowledged_on_the_new_master(
    stage: Stage, deployment: Deployment
) -> None:
    scene = _scene(stage, deployment, lease=30_000)
    scene.start_victim()
    scene.actors.hold.send("running")
    scene.wait_until_started("running")
    _wait_until_replicated(deployment)

    deployment.master.kill()
    deployment.wait_for_failover()
    scene.journal.allow("go")

    wait_until(lambda: _is_empty(scene), timeout=20, message="the message is acknowledged")
    assert scene.journal.counts() == {"running": 1}


def test_delayed_message_runs_on_the_new_master(stage: Stage, deployment: Deployment) -> None:
    scene = _scene(stage, deployment)
    scene.start_survivor()
    scene.actors.note.send_with_options(args=("delayed",), delay=4_000)
    _wait_until_replicated(deployment)

    deployment.master.kill()

    _wait_until_ran(scene, "delayed", seconds=20)
    assert scene.journal.counts() == {"delayed": 1}


def test_old_master_that_comes_back_takes_no_messages(stage: Stage, deployment: Deployment) -> None:
    scene = _scene(stage, deployment)
    deployment.master.kill()
    deployment.wait_for_failover()

    deployment.master.start()
    client = deployment.master.client()
    wait_until(
        lambda: client.role()[0] in {b"slave", "slave"}, timeout=20, message="it is a replica"
    )
    _send(scene, "later")
    scene.start_survivor()

    _wait_until_ran(scene, "later", seconds=BOUND)
    assert scene.journal.counts() == {"later": 1}


def test_hung_sentinel_delays_a_failover_by_seconds_only(
    stage: Stage, deployment: Deployment
) -> None:
    scene = _scene(stage, deployment)
    scene.actors.note.send("before")
    deployment.sentinels[0].pause()  # the one that was asked; two of three still agree

    deployment.master.kill()
    begun = time.monotonic()
    _send(scene, "after")
    scene.start_survivor()

    _wait_until_ran(scene, "after", seconds=2 * BOUND - (time.monotonic() - begun))


def _scene(stage: Stage, deployment: Deployment, **options: int) -> Scene:
    """Its witness looks at the replica: the master that is left at the end."""
    return stage(deployment.replica, url=deployment.url, lease=options.pop("lease", 5_000))


def _is_on_new_master(scene: Scene, deployment: Deployment) -> bool:
    try:
        port: object = scene.broker.client.info("server")["tcp_port"]
    except redis.RedisError:
        return False
    return port == deployment.replica.port


def _send(scene: Scene, label: str) -> str:
    """Send what overtakes whatever piled up while nobody consumed."""

    def is_sent() -> bool:
        try:
            scene.actors.note.send_with_options(args=(label,), lane="high")
        except dramatiq.errors.BrokerConnectionError:
            return False
        return True

    wait_until(is_sent, timeout=2 * BOUND, interval=0.05, message=f"{label} is sent")
    return label


def _wait_until_ran(scene: Scene, label: str, *, seconds: float) -> None:
    wait_until(lambda: scene.journal.pids(label), timeout=seconds, message=f"{label} ran")


def _wait_for_more(scene: Scene, count: int) -> None:
    goal = len(scene.journal.counts()) + count
    wait_until(lambda: len(scene.journal.counts()) >= goal, timeout=30, message=f"{count} more ran")


def _wait_until_replicated(deployment: Deployment) -> None:
    assert deployment.master.client().execute_command("WAIT", 1, 5_000) == 1


def _is_empty(scene: Scene) -> bool:
    try:
        scene.join(seconds=0.1)
    except (dramatiq.errors.BrokerConnectionError, dramatiq.errors.QueueJoinTimeout):
        return False
    return True
