"""How soon the messages of a dead worker are run by others, and that no living one loses any.

Leases are as long as by default, unless a test is about them: what is recovered sooner was
recovered by another proof.
"""

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from dramatiq_streams import watch
from dramatiq_streams.options import DEFAULT_LEASE_MS
from tests.conftest import StartServer
from tests.faults.conftest import Stage
from tests.faults.scene import Scene
from tests.support.cli import DramatiqCommand
from tests.support.processes import start_process
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

#: As promised for a process of the same host, and a second for a busy machine.
NEIGHBOUR_SECONDS = 2.0 + 1.0
GRACE_MS = 1_500
#: As promised for another host, and for a lease, above what they are set to; and a second.
NOTICED_MS = 2_000 + 1_000

LateStage = Callable[[Server], Scene]


@pytest.fixture
def scene(stage: Stage, server: Server) -> Scene:
    """A scene with the defaults that users have."""
    return stage(server, lease=DEFAULT_LEASE_MS)


@pytest.fixture
def late_stage(stage: Stage) -> LateStage:
    """Sets scenes in which a disconnected worker is dead after `GRACE_MS`."""
    return lambda server: stage(server, lease=DEFAULT_LEASE_MS, disconnect_grace=GRACE_MS)


def _holds(scene: Scene, **options: Any) -> DramatiqCommand:
    """Start a worker that works on a message until it is allowed to go on."""
    command = scene.start_victim(**options)
    scene.actors.hold.send("message")
    scene.wait_until_started("message")
    return command


def _wait_until_run_here(scene: Scene, *, seconds: float) -> None:
    wait_until(
        lambda: scene.journal.pids("message", "started")[-1:] == [os.getpid()],
        timeout=seconds,
        message="another process runs it",
    )
    scene.journal.allow("go")
    scene.join()


def _wait_until_judged(scene: Scene, command: DramatiqCommand) -> None:
    """Wait until others could have judged the holder, and have looked at it since."""
    (holder,) = scene.holders()
    assert f":{command.worker_pids[0]}:" in holder
    scene.wait_until_late(holder, GRACE_MS + 500)
    scene.wait_for_heartbeats()


def _outlast(seconds: float) -> None:
    """Let a disturbance last for so long."""
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, timeout=seconds + 5, message="it lasted")


def _assert_kept(scene: Scene, pid: int) -> None:
    """The message is still its holder's, who ends it; nobody else has it."""
    assert scene.deliveries() == [1]
    scene.journal.allow("go")
    scene.join(seconds=10)
    assert scene.journal.pids("message", "started") == [pid]
    assert scene.journal.pids("message") == [pid]


def test_neighbour_takes_over_from_a_killed_worker_within_two_seconds(scene: Scene) -> None:
    command = _holds(scene, prefetch=4)
    prefetched = scene.send_notes(3)
    scene.wait_until_pending(4)
    scene.start_survivor()
    scene.wait_for_heartbeats(1)

    command.kill_worker()

    _wait_until_run_here(scene, seconds=NEIGHBOUR_SECONDS)
    assert scene.journal.counts() == dict.fromkeys({"message", *prefetched}, 1)


def test_worker_that_starts_later_takes_over_from_the_only_one(scene: Scene) -> None:
    command = _holds(scene)
    command.kill()

    scene.start_survivor()

    _wait_until_run_here(scene, seconds=NEIGHBOUR_SECONDS)


def test_worker_that_dies_of_its_first_message_is_known_already(scene: Scene) -> None:
    scene.journal.allow("die")
    scene.actors.hold.send("message")
    command = scene.start_victim(die_at="before_process_message", wait=False)
    wait_until(lambda: scene.journal.pids("victim", "died"), timeout=15, message="it has died")
    command.kill()

    scene.start_survivor()

    _wait_until_run_here(scene, seconds=NEIGHBOUR_SECONDS)


def test_killed_neighbour_leaves_nothing_behind(scene: Scene) -> None:
    command = _holds(scene)
    (victim,) = scene.holders()
    scene.start_survivor()

    command.kill_worker()
    _wait_until_run_here(scene, seconds=NEIGHBOUR_SECONDS)

    wait_until(lambda: victim not in scene.heartbeats(), message="it is forgotten")
    assert victim not in scene.consumers()
    assert victim.encode() not in scene.client.hkeys(scene.keys.connections)


def test_stopped_neighbour_keeps_its_message(late_stage: LateStage, server: Server) -> None:
    scene = late_stage(server)
    command = _holds(scene)
    scene.start_survivor()
    (pid,) = command.worker_pids

    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, message="stopped")
    _wait_until_judged(scene, command)
    os.kill(pid, signal.SIGCONT)

    _assert_kept(scene, pid)


def test_worker_of_another_host_is_taken_over_from_after_the_grace(
    late_stage: LateStage, server: Server
) -> None:
    scene = late_stage(server)
    command = _holds(scene, host="elsewhere")
    scene.start_survivor()
    scene.wait_for_heartbeats(1)

    command.kill_worker()

    _wait_until_run_here(scene, seconds=(GRACE_MS + NOTICED_MS) / 1000)


def test_only_worker_was_on_another_host_and_a_new_one_waits_for_the_grace(
    late_stage: LateStage, server: Server
) -> None:
    scene = late_stage(server)
    command = _holds(scene, host="elsewhere")
    command.kill()

    scene.start_survivor()

    _wait_until_run_here(scene, seconds=(GRACE_MS + NOTICED_MS) / 1000)


def test_worker_whose_connections_are_all_killed_keeps_its_message(
    late_stage: LateStage, server: Server
) -> None:
    scene = late_stage(server)
    command = _holds(scene, host="elsewhere")
    scene.start_survivor()
    scene.wait_for_heartbeats()
    (holder,) = scene.holders()

    killed: set[bytes] = set()
    for _ in range(3):
        for number in _connections(scene, holder):
            scene.client.execute_command("CLIENT", "KILL", "ID", number)
            killed.add(number)
        wait_until(lambda: _connections(scene, holder) - killed, message="it is connected anew")
    scene.wait_for_heartbeats(5)

    _assert_kept(scene, command.worker_pids[0])


def _connections(scene: Scene, consumer: str) -> set[bytes]:
    found: Any = scene.client.hget(scene.keys.connections, consumer)
    return {word for word in found.split() if word.isdigit()}


def _down(server: Server) -> None:
    server.kill()
    _outlast(2 * GRACE_MS / 1000)
    server.start()


def _hung(server: Server) -> None:
    server.pause()
    _outlast(2 * GRACE_MS / 1000)
    server.resume()


@pytest.mark.parametrize("disturb", [_down, _hung])
def test_nobody_is_buried_who_is_back_a_little_later_than_others(
    late_stage: LateStage, own_server: Server, disturb: Callable[[Server], None]
) -> None:
    scene = late_stage(own_server)
    with FaultyProxy(own_server) as proxy:
        command = _holds(scene, host="elsewhere", url=proxy.url)
        scene.start_survivor()
        scene.wait_for_heartbeats()

        proxy.refuse()
        disturb(own_server)
        scene.wait_for_heartbeats(2)
        proxy.accept()
        scene.wait_for_heartbeats(6)

        _assert_kept(scene, command.worker_pids[0])


def test_nobody_is_buried_by_a_watcher_that_has_just_reached_a_new_master(
    late_stage: LateStage, own_server: Server
) -> None:
    scene = late_stage(own_server)
    with FaultyProxy(own_server) as proxy:
        command = _holds(scene, host="elsewhere", url=proxy.url)
        (holder,) = scene.holders()
        proxy.refuse()
        scene.wait_until_late(holder, GRACE_MS + 500)

        scene.start_survivor()  # It has never seen the connections that are gone.
        scene.wait_for_heartbeats(2)
        proxy.accept()
        scene.wait_for_heartbeats(6)

        _assert_kept(scene, command.worker_pids[0])


def _limited_url(server: Server, rights: str) -> str:
    """The server's URL for a user with all rights but these."""
    command = f"ACL SETUSER limited on >secret ~* &* +@all {rights}"
    try:
        server.client().execute_command(*command.split())
    except redis.ResponseError as error:
        pytest.skip(f"Redis 6.2 cannot take back a subcommand: {error}")
    return server.tcp_url.replace("//", "//limited:secret@")


@pytest.mark.parametrize("rights", ["-client", "-client|list"])
def test_lease_decides_where_connections_cannot_be_listed(
    stage: Stage, start_server: StartServer, rights: str
) -> None:
    server = start_server(tcp=True)
    url = _limited_url(server, rights)
    scene = stage(server, url=url, lease=4_000, disconnect_grace=1_000)
    command = _holds(scene, host="elsewhere")
    scene.start_survivor()
    scene.wait_for_heartbeats(1)

    (holder,) = scene.holders()
    command.kill_worker()
    scene.wait_until_late(holder, 2_000)

    assert scene.holders() == {holder}
    _wait_until_run_here(scene, seconds=(4_000 - 2_000 + NOTICED_MS) / 1000)


@pytest.mark.parametrize("rights", ["-client", "-client|info", "-client|list -client|info"])
def test_workers_do_without_the_rights_to_name_their_connections(
    stage: Stage, start_server: StartServer, rights: str
) -> None:
    server = start_server(tcp=True)
    scene = stage(server, url=_limited_url(server, rights), lease=DEFAULT_LEASE_MS)
    command = _holds(scene)

    command.kill_worker()
    scene.start_survivor()

    _wait_until_run_here(scene, seconds=NEIGHBOUR_SECONDS)


def test_lease_decides_when_nothing_else_proves_a_death(stage: Stage, server: Server) -> None:
    scene = stage(server, lease=2_000, disconnect_grace=3_600_000)
    command = _holds(scene, host="elsewhere")
    scene.start_survivor()

    command.kill_worker()

    _wait_until_run_here(scene, seconds=(2_000 + NOTICED_MS) / 1000)


def test_worker_in_another_pid_namespace_is_judged_by_its_connections(
    late_stage: LateStage, server: Server, tmp_path: Path
) -> None:
    unshare = _unshare(tmp_path)
    scene = late_stage(server)
    command = _holds(scene, wrapper=unshare)
    scene.start_survivor()

    scene.wait_for_heartbeats(10)
    kept_by = scene.journal.pids("message", "started")
    command.kill()

    assert len(kept_by) == 1
    _wait_until_run_here(scene, seconds=(GRACE_MS + NOTICED_MS) / 1000)


def _unshare(directory: Path) -> list[str]:
    """What runs a command in a pid namespace of its own, or else the test is skipped."""
    program, true = shutil.which("unshare"), shutil.which("true")
    if program is None or true is None or os.geteuid() != 0:
        pytest.skip("another pid namespace takes util-linux's unshare, and root")
    command = [program, "--pid", "--fork", "--kill-child", "--mount-proc"]
    trial = start_process([*command, true], log=directory / "unshare", cwd=directory)
    if trial.wait(10) != 0:
        pytest.skip("this system does not permit another pid namespace")
    return command


def test_late_consumer_that_holds_nothing_is_forgotten_and_one_that_holds_is_not(
    late_stage: LateStage, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = late_stage(server)
    monkeypatch.setattr(watch, "FORGET_MS", 0)
    scene.client.zadd(scene.keys.consumers, {"idle": 1_000, "holder": 1_000})
    scene.send_notes(1)
    scene.broker._process.queues.ensure_groups("default")
    scene.take_as("holder")
    scene.take_as("idle")

    scene.start_survivor()

    wait_until(lambda: "idle" not in scene.heartbeats(), message="it is forgotten")
    assert "idle" not in scene.consumers()
    assert "holder" in scene.heartbeats()
    assert scene.holders() == {"holder"}
