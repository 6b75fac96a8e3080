"""A worker process that is stopped for longer than its lease, and then goes on unknowing."""

import os
import signal

import psutil

from tests.faults.conftest import Stage
from tests.faults.scene import READS_BLOCKED, Scene, script
from tests.support.cli import DramatiqCommand
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

LATE_ACK = "was acknowledged after its lease was lost"


def _stop(zombie: DramatiqCommand) -> int:
    """Stop the one worker process, and return its id."""
    (pid,) = zombie.worker_pids
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, message="stopped")
    return pid


def _stop_and_replace(scene: Scene, zombie: DramatiqCommand) -> int:
    """Stop the worker, have all it held run in this process, and return the worker's id."""
    pid = _stop(zombie)
    scene.start_survivor()
    scene.journal.allow("go")
    scene.join()
    return pid


def test_zombie_neither_acks_what_it_ran_nor_starts_what_it_prefetched(scene: Scene) -> None:
    zombie = scene.start_victim(prefetch=4)
    scene.actors.hold.send("running")
    scene.wait_until_started("running")
    prefetched = scene.send_notes(3)
    scene.wait_until_pending(4)

    pid = _stop_and_replace(scene, zombie)
    os.kill(pid, signal.SIGCONT)
    zombie.wait_for_log(LATE_ACK)
    zombie.stop()

    assert scene.journal.pids("running") == [os.getpid(), pid]
    assert scene.journal.counts() == {"running": 2, **dict.fromkeys(prefetched, 1)}
    assert scene.dead_reasons() == []


def test_zombie_that_cannot_learn_of_its_loss_starts_nothing_it_prefetched(
    scene: Scene, proxy: FaultyProxy
) -> None:
    zombie = scene.start_victim(prefetch=4, url=proxy.url)
    scene.actors.hold.send("running")
    scene.wait_until_started("running")
    prefetched = scene.send_notes(3)
    scene.wait_until_pending(4)

    pid = _stop_and_replace(scene, zombie)
    proxy.delay_replies(1, pattern=script("extend"))
    os.kill(pid, signal.SIGCONT)
    zombie.wait_for_log(LATE_ACK)
    zombie.stop()

    assert scene.journal.counts() == {"running": 2, **dict.fromkeys(prefetched, 1)}


def test_zombie_does_not_start_what_arrived_while_it_was_stopped(
    stage: Stage, server: Server, proxy: FaultyProxy
) -> None:
    scene = stage(server, lease=2_000)
    zombie = scene.start_victim(url=proxy.url, prefetch=READS_BLOCKED)
    begun = proxy.commands["XREADGROUP"]
    wait_until(lambda: proxy.commands["XREADGROUP"] > begun, message="it has just blocked")
    pid = _stop(zombie)
    labels = scene.send_notes(1)
    scene.wait_until_pending(1)
    scene.start_survivor()
    scene.join()

    os.kill(pid, signal.SIGCONT)
    zombie.wait_for_log("this has no effect")
    zombie.stop()

    assert scene.journal.counts() == dict.fromkeys(labels, 1)


def test_zombie_takes_part_again(scene: Scene) -> None:
    zombie = scene.start_victim()
    scene.actors.hold.send("running")
    scene.wait_until_started("running")
    pid = _stop_and_replace(scene, zombie)

    os.kill(pid, signal.SIGCONT)
    zombie.wait_for_log(LATE_ACK)
    labels: set[str] = set()

    def takes_part() -> bool:
        labels.update(scene.send_notes(50, f"{len(labels)}-"))
        scene.join()
        return any(note.pid == pid for note in scene.journal.notes() if note.label in labels)

    wait_until(takes_part, timeout=20, message="the zombie ran some")
    assert scene.journal.counts() == {"running": 2, **dict.fromkeys(labels, 1)}
