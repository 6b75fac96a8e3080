"""Messages that kill the process that runs them, and the innocent ones that are with them there."""

from typing import Any

import pytest

from dramatiq_streams.options import DEFAULT_MAX_DELIVERIES
from tests.faults.conftest import Stage
from tests.faults.scene import Scene
from tests.support.servers import Server
from tests.support.waiting import wait_until

INNOCENTS = 15


def _run_until_dead_lettered(scene: Scene, *, crashes: int, **options: Any) -> None:
    """Start the workers again after each crash, as a supervisor does."""
    for _ in range(crashes):
        command = scene.start_victim(**options)
        scene.journal.allow("die")
        scene.wait_for_end(command)
    scene.start_victim(**options)
    wait_until(scene.dead_reasons, message="the killer is a dead letter")


def _wait_for_starts(scene: Scene, count: int) -> None:
    wait_until(
        lambda: scene.journal.counts("started").total() == count,
        message=f"{count} have started",
    )


def _suspect(scene: Scene) -> None:
    """Have a worker die with `hold`, whose next delivery is the last one."""
    scene.actors.hold.send("suspect")
    command = scene.start_victim()
    scene.wait_until_started("suspect")
    command.kill()


@pytest.mark.parametrize(
    ("how", "limit", "threads"), [("exit", None, 4), ("segfault", 3, 1), ("out of memory", 3, 4)]
)
def test_killer_is_stopped_and_all_that_was_fetched_with_it_runs_once(
    stage: Stage, server: Server, how: str, limit: int | None, threads: int
) -> None:
    limits: dict[str, Any] = {} if limit is None else {"max_deliveries": limit}
    crashes = limit or DEFAULT_MAX_DELIVERIES
    scene = stage(server, lease=60_000, **limits)
    scene.actors.poison.send("killer", how)
    innocents = [f"innocent{number}" for number in range(INNOCENTS)]
    scene.broker.enqueue_many([scene.actors.hold.message(label) for label in innocents])

    _run_until_dead_lettered(scene, crashes=crashes, threads=threads, prefetch=1 + INNOCENTS)
    scene.journal.allow("go")
    scene.join(seconds=20)

    assert scene.dead_reasons() == ["max_deliveries"]
    assert scene.journal.counts() == {"killer": crashes, **dict.fromkeys(innocents, 1)}


def test_innocents_that_ran_alone_before_the_killer_are_not_run_again(
    stage: Stage, server: Server
) -> None:
    scene = stage(server, lease=60_000, max_deliveries=3)
    before = [f"before{number}" for number in range(5)]
    after = [f"after{number}" for number in range(5)]
    hold, poison = scene.actors.hold, scene.actors.poison
    for label in before:
        hold.send(label)
    poison.send("killer")
    for label in after:
        hold.send(label)

    for crash in (1, 2):
        command = scene.start_victim(threads=11, prefetch=11)
        _wait_for_starts(scene, 11 * crash)
        scene.journal.allow("die")
        scene.wait_for_end(command)
    scene.journal.allow("go")
    command = scene.start_victim(threads=11, prefetch=11)
    wait_until(lambda: set(scene.journal.counts()) == {"killer", *before}, message="it is its turn")
    scene.journal.allow("die")
    scene.wait_for_end(command)
    scene.start_survivor()

    scene.join(seconds=20)
    assert scene.dead_reasons() == ["max_deliveries"]
    assert scene.journal.counts() == {"killer": 3, **dict.fromkeys([*before, *after], 1)}


def test_last_delivery_waits_for_all_else_and_nothing_runs_beside_it(
    stage: Stage, server: Server
) -> None:
    scene = stage(server, lease=60_000, max_deliveries=2)
    _suspect(scene)
    scene.start_survivor(threads=4)
    wait_until(lambda: scene.journal.counts("started")["suspect"] == 2, message="it runs again")
    later = scene.send_notes(8)
    scene.wait_for_heartbeats(2)
    ran_beside, fetched = scene.journal.counts(), len(scene.pending())
    scene.journal.allow("go")

    scene.join(seconds=10)
    assert ran_beside == {}
    assert fetched == 1
    assert scene.journal.counts() == dict.fromkeys({"suspect", *later}, 1)


def test_what_comes_while_a_last_delivery_runs_is_left_to_others(
    stage: Stage, server: Server
) -> None:
    scene = stage(server, lease=60_000, max_deliveries=2)
    _suspect(scene)
    command = scene.start_victim(threads=2)
    _wait_for_starts(scene, 2)

    notes = scene.send_notes(8)
    scene.wait_for_holder(command, messages=1)
    scene.start_survivor(threads=2)
    wait_until(lambda: set(scene.journal.counts()) == notes, message="all else has run")
    scene.journal.allow("go")

    scene.join(seconds=10)
    assert scene.journal.counts() == dict.fromkeys({"suspect", *notes}, 1)


def test_crash_while_a_last_delivery_waits_does_not_count_for_it(
    stage: Stage, server: Server
) -> None:
    scene = stage(server, lease=60_000, max_deliveries=2)
    _suspect(scene)
    scene.actors.hold.send_with_options(args=("busy",), lane="high")
    command = scene.start_victim(threads=2, prefetch=4)
    scene.wait_until_started("busy")
    scene.wait_for_holder(command, messages=2)
    command.kill()
    scene.journal.allow("go")
    scene.start_survivor()

    scene.join(seconds=20)
    assert scene.journal.counts("started")["suspect"] == 2
    assert scene.dead_reasons() == []
