"""A server whose clock is set, under live workers whose own clocks go on."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import Stage
from tests.faults.scene import Scene
from tests.support.binaries import ServerMissing
from tests.support.servers import Server
from tests.support.stepped_clock import SteppedClock
from tests.support.users import user_under_test
from tests.support.waiting import wait_until

LEASE_MS = 3_000
#: More than the ten minutes after which a silent consumer that holds nothing is forgotten.
STEP_SECONDS = 660


@pytest.fixture
def clock(tmp_path: Path) -> SteppedClock:
    try:
        return SteppedClock(tmp_path)
    except ServerMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


@pytest.fixture
def stepped(clock: SteppedClock) -> Iterator[Server]:
    """A server with that clock."""
    with Server(clock.binary(), appendonly=True, user=user_under_test()) as started:
        yield started


@pytest.fixture
def scene(stage: Stage, stepped: Server) -> Scene:
    return stage(stepped, lease=LEASE_MS)


def _ahead_seconds(scene: Scene) -> float:
    seconds, micros = scene.client.time()
    return seconds + micros / 1e6 - time.time()


def _step(scene: Scene, clock: SteppedClock, seconds: int) -> None:
    clock.set(seconds)
    wait_until(lambda: abs(_ahead_seconds(scene) - seconds) < 1, message="the clock was set")


def _wait_for_leases(leases: float) -> None:
    until = time.monotonic() + leases * LEASE_MS / 1000
    wait_until(lambda: time.monotonic() >= until, timeout=60, message="leases have passed")


def _start_crowd(scene: Scene) -> set[str]:
    """Two processes with a long message each, two more fetched by each, and one that is idle."""
    for number in range(2):
        command = scene.start_victim(prefetch=3)
        scene.actors.hold.send(f"long{number}")
        scene.wait_until_started(f"long{number}")
        scene.send_notes(2, prefix=f"note{number}-")
        scene.wait_until_pending(3 * (number + 1))
        assert command.returncode is None
    return {"long0", "long1", "note0-0", "note0-1", "note1-0", "note1-1"}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seconds", [STEP_SECONDS, -STEP_SECONDS], ids=["forward", "back"])
def test_nothing_that_is_alive_is_recovered_when_the_clock_is_set(
    scene: Scene, clock: SteppedClock, seconds: int
) -> None:
    labels = _start_crowd(scene)
    scene.start_survivor()
    scene.wait_for_heartbeats()
    holders = scene.holders()

    _step(scene, clock, seconds)
    _wait_for_leases(3)

    assert scene.holders() == holders
    assert scene.deliveries() == [1] * len(labels)
    now_ms = (time.time() + seconds) * 1000
    assert all(abs(beat - now_ms) < 5_000 for beat in scene.heartbeats().values())
    scene.journal.allow("go")
    late = scene.send_notes(5, prefix="late")
    scene.join(seconds=20)
    assert scene.journal.counts() == dict.fromkeys(labels | late, 1)
    assert scene.journal.counts("started") == {"long0": 1, "long1": 1}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seconds", [STEP_SECONDS, -STEP_SECONDS], ids=["forward", "back"])
@pytest.mark.parametrize("host", [None, "another"], ids=["same-host", "other-host"])
def test_dead_worker_is_noticed_after_the_clock_was_set(
    stage: Stage, stepped: Server, clock: SteppedClock, seconds: int, host: str | None
) -> None:
    scene = stage(stepped, lease=LEASE_MS, disconnect_grace=2_000)
    command = scene.start_victim(host=host)
    scene.actors.hold.send("held")
    scene.wait_until_started("held")
    scene.start_survivor()
    scene.wait_for_heartbeats()

    os.killpg(command.pid, signal.SIGKILL)
    _step(scene, clock, seconds)

    wait_until(
        lambda: len(scene.journal.pids("held", "started")) == 2,
        timeout=15,
        message="another process runs it",
    )
    scene.journal.allow("go")
    scene.join()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seconds", [STEP_SECONDS, -STEP_SECONDS], ids=["forward", "back"])
def test_delays_that_begin_after_the_clock_was_set_are_kept(
    scene: Scene, clock: SteppedClock, seconds: int
) -> None:
    scene.start_survivor()
    scene.wait_for_heartbeats()
    _step(scene, clock, seconds)

    begun = time.monotonic()
    scene.actors.note.send_with_options(args=("due",), delay=1_500)
    wait_until(lambda: scene.journal.pids("due"), timeout=20, message="it ran")

    assert 1.4 < time.monotonic() - begun < 4


@pytest.mark.timeout(120)
def test_delay_that_was_running_when_the_clock_was_set_ends_by_that_clock(
    scene: Scene, clock: SteppedClock
) -> None:
    scene.start_survivor()
    scene.wait_for_heartbeats()
    scene.actors.note.send_with_options(args=("early",), delay=(STEP_SECONDS - 60) * 1000)
    _step(scene, clock, STEP_SECONDS)
    wait_until(lambda: scene.journal.pids("early"), timeout=20, message="it ran before its time")

    scene.actors.note.send_with_options(args=("late",), delay=1_000)
    _step(scene, clock, 0)
    _wait_for_leases(1)
    assert scene.journal.pids("late") == []
    _step(scene, clock, STEP_SECONDS)
    wait_until(lambda: scene.journal.pids("late"), timeout=20, message="it ran after its time")
    scene.join()
