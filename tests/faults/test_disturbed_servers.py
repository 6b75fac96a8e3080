"""Scripts flushed, connections killed and servers restarted while messages are sent and run."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dramatiq.errors
import pytest

from tests.faults.conftest import Stage
from tests.faults.scene import READS_BLOCKED, Scene
from tests.support.servers import Server
from tests.support.waiting import wait_until

Disturb = Callable[[Server], None]


def flush_scripts(server: Server) -> None:
    server.client().script_flush()


def kill_connections(server: Server) -> None:
    client = server.client()
    for connection in client.client_list(_type="normal"):
        client.client_kill_filter(_id=connection["id"], skipme=True)


def restart(server: Server) -> None:
    server.restart()


def kill(server: Server) -> None:
    server.kill()
    server.start()


@contextmanager
def sending(scene: Scene) -> Iterator[tuple[set[str], set[str]]]:
    """Send one message after the other meanwhile; yields the labels sent, and those in doubt."""
    sent: set[str] = set()
    in_doubt: set[str] = set()
    is_over = threading.Event()

    def send() -> None:
        for number in itertools.count():
            if is_over.is_set():
                return
            label = f"sent{number}"
            delay = 100 if number % 3 == 0 else None
            try:
                scene.actors.note.send_with_options(args=(label,), delay=delay)
                sent.add(label)
            except dramatiq.errors.BrokerConnectionError:
                in_doubt.add(label)
                is_over.wait(0.01)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent, in_doubt
    finally:
        is_over.set()
        thread.join(20)


@pytest.mark.parametrize("disturb", [flush_scripts, kill_connections, restart, kill])
def test_nothing_is_lost_under_load(stage: Stage, own_server: Server, disturb: Disturb) -> None:
    scene = stage(own_server, lease=3_000)
    scene.start_victim(processes=2)
    scene.start_survivor()

    with sending(scene) as (sent, in_doubt):
        for _ in range(5):
            _wait_for_more(scene, 200)
            disturb(own_server)
        _wait_for_more(scene, 200)

    scene.join(seconds=15)
    runs = scene.journal.counts()
    assert sent <= set(runs) <= sent | in_doubt
    assert scene.pending() == []
    assert scene.dead_reasons() == []
    if disturb is flush_scripts:
        assert set(runs.values()) == {1}
        assert in_doubt == set()


def _wait_for_more(scene: Scene, count: int) -> None:
    goal = len(scene.journal.counts()) + count
    wait_until(
        lambda: len(scene.journal.counts()) >= goal,
        timeout=20,
        interval=0.02,
        message=f"{count} more messages ran",
    )


def test_message_that_runs_while_its_server_restarts_runs_once(
    stage: Stage, own_server: Server
) -> None:
    scene = stage(own_server, lease=10_000)
    scene.start_victim(prefetch=3)
    scene.actors.hold.send("running")
    prefetched = scene.send_notes(2)
    scene.wait_until_pending(3)

    own_server.restart()
    scene.journal.allow("go")
    scene.actors.note.send("after")

    scene.join(seconds=10)
    assert scene.journal.counts() == dict.fromkeys({"running", "after", *prefetched}, 1)
    assert scene.pending() == []


def test_delayed_message_and_retry_survive_a_killed_server(
    stage: Stage, own_server: Server
) -> None:
    scene = stage(own_server)
    scene.actors.note.send_with_options(args=("delayed",), delay=1_500)
    scene.actors.fail_once.send("retried")
    scene.start_survivor()
    wait_until(lambda: scene.journal.pids("retried"), message="it ran once")

    kill(own_server)

    scene.join(seconds=10)
    runs = scene.journal.counts()
    assert runs["delayed"] == 1
    assert runs["retried"] in {2, 3}


def test_new_messages_run_after_the_server_came_back_empty(
    stage: Stage, own_server: Server
) -> None:
    scene = stage(own_server)
    scene.start_victim(prefetch=2)
    scene.start_survivor()
    scene.send_notes(10, "before")
    scene.join()
    scene.wait_until_blocked(2)

    own_server.restart(keep_data=False)
    after = scene.send_notes(200, "after")

    wait_until(lambda: after <= set(scene.journal.counts()), message="the new ones ran")
    scene.join()
    assert scene.pending() == []


def test_message_whose_server_forgot_it_is_finished_in_peace(
    stage: Stage, own_server: Server
) -> None:
    scene = stage(own_server)
    victim = scene.start_victim(prefetch=READS_BLOCKED)
    scene.actors.hold.send("forgotten")
    scene.wait_until_started("forgotten")

    own_server.restart(keep_data=False)
    scene.journal.allow("go")
    scene.actors.note.send("after")

    scene.join(seconds=10)
    victim.wait_for_log("this has no effect")
    assert scene.journal.counts() == {"forgotten": 1, "after": 1}
    assert scene.dead_reasons() == []


def test_termination_while_the_server_is_down_ends_and_loses_nothing(
    stage: Stage, own_server: Server
) -> None:
    scene = stage(own_server)
    victim = scene.start_victim(prefetch=4)
    scene.actors.hold.send("running")
    prefetched = scene.send_notes(3)
    scene.wait_until_pending(4)

    own_server.stop()
    scene.terminate(victim)
    scene.journal.allow("go")
    scene.wait_for_end(victim)
    own_server.start()
    scene.start_survivor()

    scene.join(seconds=10)
    runs = scene.journal.counts()
    assert victim.returncode == 0, victim.log
    assert runs.pop("running") == 2  # it ran and could not be acknowledged
    assert runs == dict.fromkeys(prefetched, 1)


def test_dead_letters_and_settled_messages_stay_settled_after_a_kill(
    stage: Stage, own_server: Server
) -> None:
    scene = stage(own_server)
    scene.actors.fail.send("failed")
    scene.send_notes(100)
    worker = scene.start_survivor()
    scene.join()
    worker.stop()

    kill(own_server)
    scene.start_survivor()
    scene.actors.note.send("after")

    scene.join()
    assert scene.dead_reasons() == ["failed"]
    assert set(scene.journal.counts().values()) == {1}
