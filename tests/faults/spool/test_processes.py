"""Processes that share a spool or leave it behind: killed at each step, copied, side by side."""

import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from dramatiq.message import Message

from tests.contract.queue_state import QueueState
from tests.faults.conftest import Stage
from tests.faults.spool.conftest import MakeSender
from tests.faults.spool.senders import labels, run_sender, wait_until_drained
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until


def test_killed_sender_has_lost_nothing_that_it_had_sent(
    server: Server, proxy: FaultyProxy, namespace: str, spool: Path, queue: QueueState
) -> None:
    proxy.refuse()
    settings = {"url": proxy.url, "namespace": namespace, "spool": str(spool)}
    first = run_sender(**settings, labels=["a"])
    killed = run_sender(**settings, labels=["b"], die_at="after add")
    proxy.accept()

    last = run_sender(**settings, labels=["c"], until_drained=True)

    assert (first.stdout, killed.stdout, last.stdout) == ("a\n", "", "c\n")
    assert killed.returncode == -signal.SIGKILL
    assert labels(queue) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "die_at",
    ["before add", "before take_in", "after take_in", "before remove", "after remove"],
)
def test_next_process_sends_what_a_killed_one_left_and_nothing_twice(
    proxy: FaultyProxy, namespace: str, spool: Path, queue: QueueState, die_at: str
) -> None:
    settings = {"url": proxy.url, "namespace": namespace, "spool": str(spool)}
    proxy.refuse()
    sent = run_sender(**settings, labels=["a", "b", "c"]).stdout.split()
    if "add" not in die_at:
        proxy.accept()

    killed = run_sender(**settings, labels=["d"], die_at=die_at, until_drained=True)
    proxy.accept()
    last = run_sender(**settings, labels=["e"], until_drained=True)

    assert killed.returncode == -signal.SIGKILL
    assert last.returncode == 0, last.stderr
    expected = [*sent, *killed.stdout.split(), "e"]
    found = labels(queue)
    # What was being sent when it died may or may not have been spooled.
    assert [label for label in found if label != "d" or "d" in expected] == expected
    assert len(found) == len(set(found))


def test_spool_that_is_moved_to_another_disk_after_a_crash_sends_nothing_twice(
    proxy: FaultyProxy, namespace: str, spool: Path, queue: QueueState
) -> None:
    settings = {"url": proxy.url, "namespace": namespace}
    proxy.refuse()
    run_sender(**settings, spool=str(spool), labels=["a", "b", "c"])
    proxy.accept()
    killed = run_sender(
        **settings, spool=str(spool), labels=[], die_at="after take_in", until_drained=True
    )
    other = spool.parent / "other"
    other.mkdir()
    for file in spool.parent.glob("spool*"):
        shutil.copy(file, other)  # the file beside it too, which has the last messages

    last = run_sender(**settings, spool=str(other / "spool"), labels=["d"], until_drained=True)

    assert killed.returncode == -signal.SIGKILL
    assert last.returncode == 0, last.stderr
    assert labels(queue) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("template", ["empty", "full"])
def test_copies_of_a_spool_lose_nothing_in_one_outage(
    proxy: FaultyProxy, namespace: str, spool: Path, queue: QueueState, template: str
) -> None:
    settings = {"url": proxy.url, "namespace": namespace}
    one = {**settings, "spool": str(spool)}
    two = {**settings, "spool": str(spool.with_name("two"))}
    proxy.refuse()
    run_sender(**one, labels=["template"])
    if template == "empty":
        proxy.accept()
        run_sender(**one, labels=[], until_drained=True)
        proxy.refuse()
    shutil.copy(one["spool"], two["spool"])

    # What the second one spools first comes last.
    run_sender(**two, labels=["two"])
    run_sender(**one, labels=["one"])
    proxy.accept()
    for machine in (one, two):
        done = run_sender(**machine, labels=[], until_drained=True)
        assert done.returncode == 0, done.stderr

    assert labels(queue) == ["template", "one", "two"]


def test_worker_drains_what_a_dead_sender_left(
    stage: Stage, server: Server, proxy: FaultyProxy, spool: Path
) -> None:
    scene = stage(server, spool=str(spool))
    settings = {"url": proxy.url, "namespace": scene.broker.namespace, "spool": str(spool)}
    proxy.refuse()
    run_sender(**settings, labels=["left"])

    scene.start_survivor()

    wait_until(lambda: scene.journal.counts() == {"left": 1}, timeout=20)


@pytest.mark.slow
def test_processes_and_threads_that_share_a_spool_keep_the_order_of_each(
    make_sender: MakeSender, own_server: Server, namespace: str, spool: Path
) -> None:
    queue = QueueState(own_server.client(), namespace)
    settings = {"url": own_server.url, "namespace": namespace, "spool": str(spool)}
    sender = make_sender(url=own_server.url)
    threads = 4

    def send(thread: int) -> list[str]:
        sent = [f"{thread}-{number:04}" for number in range(400)]
        for label in sent:
            sender.enqueue(Message("default", "note", (label,), {}, {}))
        return sent

    def run(process: int) -> list[str]:
        sent = [f"{process}-{number:04}" for number in range(150)]
        done = run_sender(**settings, labels=sent, until_drained=True)
        assert done.returncode == 0, done.stderr
        return sent

    stopping = threading.Event()

    def disturb() -> None:
        while not stopping.wait(0.4):
            own_server.stop()
            stopping.wait(0.3)
            own_server.start()

    with ThreadPoolExecutor(8) as pool:
        disturbed = pool.submit(disturb)
        futures = [pool.submit(send, thread) for thread in range(threads)]
        futures += [pool.submit(run, process) for process in (7, 8)]
        sent = [future.result(60) for future in futures]
        stopping.set()
        disturbed.result(20)
    wait_until_drained(sender)

    found = labels(queue)
    firsts = list(dict.fromkeys(found))
    assert set(found) == {label for group in sent for label in group}
    for group in sent:
        own = [label for label in firsts if label[0] == group[0][0]]
        assert own == group
    # Only a send whose reply was lost by the server's end can be there twice.
    assert len(found) - len(firsts) <= 20
    sender.close()
