"""SIGTERM: bounded in time, and what has not started is with others at once."""

import os
import signal
import time
from typing import Any

import pytest

from dramatiq_streams.keys import RELEASED
from dramatiq_streams.options import DEFAULT_LEASE_MS
from tests.faults.conftest import Stage
from tests.faults.scene import Scene
from tests.support.cli import DramatiqCommand
from tests.support.servers import Server
from tests.support.waiting import wait_until

#: dramatiq sleeps for up to a second before it sees a signal; then a second, as promised,
#: and one more for a busy machine.
HANDED_BACK_SECONDS = 2.0 + 1.0


@pytest.fixture
def scene(stage: Stage, server: Server) -> Scene:
    """A scene with the lease that users have: nothing here waits for one."""
    return stage(server, lease=DEFAULT_LEASE_MS)


def _busy(scene: Scene, prefetched: int = 4, **options: Any) -> tuple[DramatiqCommand, set[str]]:
    """Start a worker that works on one message and has fetched more."""
    command = scene.start_victim(prefetch=1 + prefetched, **options)
    scene.actors.hold.send("long")
    scene.wait_until_started("long")
    labels = scene.send_notes(prefetched)
    scene.wait_until_pending(1 + prefetched)
    return command, labels


def _terminate(command: DramatiqCommand) -> None:
    os.kill(command.pid, signal.SIGTERM)


def _released(scene: Scene) -> list[int]:
    """How often each of what was given back counts as delivered."""
    return [
        entry["times_delivered"]
        for entry in scene.pending()
        if entry["consumer"] == RELEASED.encode()
    ]


def test_unstarted_messages_are_given_back_at_once_while_a_long_actor_goes_on(
    scene: Scene,
) -> None:
    command, _ = _busy(scene)

    _terminate(command)

    wait_until(
        lambda: _released(scene) == [0] * 4,
        timeout=HANDED_BACK_SECONDS,
        message="all are given back, and none counts as delivered",
    )
    assert command.returncode is None
    assert scene.journal.counts("started") == {"long": 1}
    scene.journal.allow("go")
    scene.start_survivor()
    scene.join()
    assert scene.journal.pids("long") != [os.getpid()]


def test_others_run_them_at_once_and_before_what_was_sent_later(scene: Scene) -> None:
    command, labels = _busy(scene)
    scene.send_notes(2, prefix="later")
    scene.start_survivor(threads=1)

    _terminate(command)

    wait_until(
        lambda: labels <= set(scene.journal.counts()),
        timeout=HANDED_BACK_SECONDS,
        message="another process ran them",
    )
    ran = [note for note in scene.journal.notes() if note.label in labels]
    assert {note.pid for note in ran} == {os.getpid()}
    assert [note.label for note in ran] == sorted(labels)
    scene.journal.allow("go")
    scene.join()


def test_order_is_kept_when_nobody_else_was_there(scene: Scene) -> None:
    command, labels = _busy(scene)
    later = scene.send_notes(2, prefix="later")
    _terminate(command)
    wait_until(lambda: _released(scene) == [0] * 4, message="all are given back")
    scene.journal.allow("go")
    scene.wait_for_end(command)

    scene.start_survivor(threads=1)
    scene.join()

    order = [note.label for note in scene.journal.notes() if note.label in labels | later]
    assert order == [*sorted(labels), *sorted(later)]


def test_worker_that_stops_fetches_nothing_more(scene: Scene) -> None:
    command, _ = _busy(scene, prefetched=1)
    _terminate(command)
    wait_until(lambda: _released(scene) == [0], message="it was given back")

    labels = scene.send_notes(20, prefix="new")
    scene.actors.note.send_with_options(args=("due",), delay=100)
    scene.start_survivor()
    wait_until(lambda: {"due", *labels} <= set(scene.journal.counts()), message="others run them")
    scene.journal.allow("go")
    scene.join()

    ran = {note.pid for note in scene.journal.notes() if note.label in {"due", *labels}}
    assert ran == {os.getpid()}


def test_clean_shutdown_leaves_no_consumer_behind(scene: Scene) -> None:
    command, _ = _busy(scene)
    (holder,) = scene.holders()
    wait_until(lambda: holder in scene.heartbeats(), message="it is known")
    scene.journal.allow("go")
    scene.join()

    command.stop()

    assert scene.heartbeats() == {}
    assert scene.client.hgetall(scene.keys.connections) == {}
    assert holder not in scene.consumers()


def test_second_signal_ends_it_and_others_take_over(scene: Scene) -> None:
    command, labels = _busy(scene)
    (victim,) = command.worker_pids
    scene.start_survivor()
    _terminate(command)
    command.wait_for_log("Shutting down...")
    begun = time.monotonic()

    _terminate(command)
    scene.wait_for_end(command)
    ended = time.monotonic() - begun

    assert ended < 5
    wait_until(
        lambda: scene.journal.pids("long", "started") == [victim, os.getpid()],
        timeout=3,  # two seconds, and another one for a busy machine
        message="another process runs it",
    )
    scene.journal.allow("go")
    scene.join()
    assert scene.journal.counts() == dict.fromkeys({"long", *labels}, 1)


@pytest.mark.parametrize("how", ["down", "hung"])
@pytest.mark.timeout(120)
def test_worker_stops_in_bounded_time_without_its_server(
    stage: Stage, own_server: Server, how: str
) -> None:
    scene = stage(own_server, lease=DEFAULT_LEASE_MS, socket_timeout=1)
    command, labels = _busy(scene)
    scene.actors.fail.send_with_options(args=("failing",), lane="high")
    if how == "down":
        own_server.kill()
    else:
        own_server.pause()
    begun = time.monotonic()

    _terminate(command)
    scene.journal.allow("go")
    scene.wait_for_end(command)
    took = time.monotonic() - begun

    assert took < 15
    own_server.start() if how == "down" else own_server.resume()
    scene.start_survivor()
    scene.join(seconds=10)
    assert set(scene.journal.counts()) == {"long", "failing", *labels}
    assert scene.dead_reasons() == ["failed"]


def test_failure_that_cannot_be_told_to_the_server_does_not_keep_the_worker(
    stage: Stage, own_server: Server
) -> None:
    scene = stage(own_server, lease=DEFAULT_LEASE_MS)
    command = scene.start_victim()
    scene.actors.hold_and_fail.send("message")
    scene.wait_until_started("message")
    own_server.kill()
    begun = time.monotonic()

    _terminate(command)
    scene.journal.allow("go")
    scene.wait_for_end(command)
    took = time.monotonic() - begun
    own_server.start()
    scene.start_survivor()

    scene.join(seconds=10)
    assert took < 10
    assert scene.journal.counts("started") == {"message": 2}
    assert scene.dead_reasons() == ["failed"]
