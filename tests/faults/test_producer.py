"""Senders in an outage, with a spool: killed at each step, cut off, restarted, side by side."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from dramatiq.message import Message

from dramatiq_streams import NotEnqueued, SpoolFull, StreamsBroker
from tests.conftest import MakeBroker, StartServer
from tests.contract.queue_state import QueueState, new_message
from tests.faults.conftest import Stage
from tests.faults.scene import script
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

PROGRAM = Path(__file__).with_name("sender.py")
HOUR_MS = 3_600_000

MakeSender = Callable[..., StreamsBroker]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def queue(server: Server, namespace: str) -> Iterator[QueueState]:
    """The queue "default", past the proxy."""
    with server.client() as client:
        yield QueueState(client, namespace)


@pytest.fixture
def make_sender(make_broker: MakeBroker, proxy: FaultyProxy, spool: Path) -> MakeSender:
    """Makes brokers behind the proxy that share a spool."""

    def make(**options: Any) -> StreamsBroker:
        return make_broker(**{"url": proxy.url, "spool": spool, **options})

    return make


@pytest.fixture
def sender(make_sender: MakeSender) -> StreamsBroker:
    return make_sender()


def run_sender(**settings: Any) -> subprocess.CompletedProcess[str]:
    """Run `sender.py` to its end, or to its death."""
    return subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(settings)],
        capture_output=True,
        text=True,
        timeout=40,
    )


def labels(queue: QueueState) -> list[Any]:
    """The first argument of every message in a lane, in order."""
    return [message.args[0] for message in queue.messages()]


def spooled(broker: StreamsBroker) -> int:
    """How many messages wait in the spool of *broker*."""
    found = broker._process._spool
    assert found is not None
    return found.size()[0]


def wait_until_drained(broker: StreamsBroker) -> None:
    wait_until(lambda: spooled(broker) == 0, timeout=20, message="the spool is drained")
    drain = broker._process._drain
    assert drain is not None
    wait_until(lambda: not drain.is_outage, message="the outage is over")


def test_messages_of_an_outage_are_sent_in_order_when_it_is_over(
    sender: StreamsBroker, proxy: FaultyProxy, queue: QueueState
) -> None:
    sender.enqueue(new_message(0))
    proxy.refuse()

    for number in range(1, 200):
        sender.enqueue(new_message(number))
    sender.enqueue_many([new_message(number) for number in range(200, 1_400)])
    assert labels(queue) == [0]
    proxy.accept()
    for number in range(1_400, 1_500):
        sender.enqueue(new_message(number))

    wait_until_drained(sender)
    sender.enqueue(new_message(1_500))
    assert labels(queue) == list(range(1_501))


def test_send_is_quick_after_the_first_failure(
    make_sender: MakeSender, server: Server, queue: QueueState
) -> None:
    # A server that takes connections and says nothing: each attempt costs a timeout.
    with FaultyProxy(server) as silent:
        sender = make_sender(url=silent.url, socket_timeout=3, socket_connect_timeout=3)
        sender.enqueue(new_message(0))
        silent.delay_replies(30)
        started = time.monotonic()
        sender.enqueue(new_message(1))
        first = time.monotonic() - started

        started = time.monotonic()
        for number in range(2, 22):
            sender.enqueue(new_message(number))
            sender.enqueue(new_message(number, queue=f"queue{number}"))
        others = time.monotonic() - started
        silent.heal()
        silent.cut()
        wait_until_drained(sender)
        sender.close()

    assert first > 2.5
    assert others < 10  # each of them with a timeout of its own: two minutes
    # The reply to the first was lost, so it is there once or twice; the others exactly once.
    assert [label for label in labels(queue) if label != 1] == [0, *range(2, 22)]
    assert labels(queue).count(1) in (1, 2)


def test_delayed_messages_keep_their_instant(
    sender: StreamsBroker, proxy: FaultyProxy, queue: QueueState
) -> None:
    proxy.refuse()
    now = queue.now_ms()
    sender.enqueue(new_message(1), delay=HOUR_MS)
    sender.enqueue(new_message(2), delay=1)
    kept = queue.now_ms()
    later = time.monotonic() + 0.3
    wait_until(lambda: time.monotonic() > later)

    proxy.accept()
    wait_until_drained(sender)

    etas = {message.args[0]: eta - now for eta, message in queue.delayed()}
    assert -100 < etas[1] - HOUR_MS < kept - now + 100
    assert etas[2] < 20_000


def test_replies_that_are_lost_while_it_drains_double_nothing(
    sender: StreamsBroker, proxy: FaultyProxy, queue: QueueState
) -> None:
    proxy.refuse()
    sender.enqueue_many([new_message(number) for number in range(100)])
    sender.enqueue_many([new_message(-number) for number in range(1, 11)], delay=HOUR_MS)
    proxy.drop_reply(script("take_in") + rb'.*"args":\[10\]')
    proxy.drop_reply(script("take_in") + rb'.*"args":\[60\]')
    proxy.drop_before(script("take_in") + rb'.*"args":\[80\]')
    proxy.drop_reply(script("take_in") + rb'.*"args":\[-5\]')

    proxy.accept()
    wait_until_drained(sender)

    assert labels(queue) == list(range(100))
    assert len(queue.delayed()) == 10
    assert proxy.counts["drop_reply"] == 3
    assert proxy.counts["drop_before"] == 1


def test_lost_reply_to_a_direct_send_is_spooled_rather_than_lost(
    sender: StreamsBroker, proxy: FaultyProxy, queue: QueueState
) -> None:
    sender.enqueue(new_message(0))
    proxy.drop_before(rb"^XADD ")

    sender.enqueue(new_message(1))

    wait_until_drained(sender)
    assert labels(queue) == [0, 1]


def test_full_spool_refuses_with_the_message_and_keeps_what_it_has(
    make_sender: MakeSender, proxy: FaultyProxy, queue: QueueState
) -> None:
    sender = make_sender(spool_max_messages=3)
    proxy.refuse()
    for number in range(3):
        sender.enqueue(new_message(number))
    message = new_message(3)

    with pytest.raises(SpoolFull, match="the spool is full") as caught:
        sender.enqueue(message)
    proxy.accept()
    wait_until_drained(sender)

    assert message.message_id in str(caught.value)
    assert caught.value.unsent == [message]
    assert isinstance(caught.value, NotEnqueued)
    assert labels(queue) == [0, 1, 2]


def test_full_server_keeps_what_is_spooled_and_drains_when_it_has_room(
    make_sender: MakeSender, own_server: Server, namespace: str
) -> None:
    with FaultyProxy(own_server) as proxy:
        sender = make_sender(url=proxy.url)
        queue = QueueState(own_server.client(), namespace)
        sender.enqueue(new_message(0))
        proxy.refuse()
        sender.enqueue_many([new_message(number) for number in range(1, 50)])
        queue.client.config_set("maxmemory-policy", "noeviction")
        queue.client.config_set("maxmemory", 1)
        proxy.accept()
        drain = sender._process._drain
        assert drain is not None
        wait_until(lambda: "out of memory" in drain._complaint)
        assert spooled(sender) == 49

        queue.client.config_set("maxmemory", 0)
        wait_until_drained(sender)

        assert labels(queue) == list(range(50))
        sender.close()


def test_queue_that_the_server_refuses_hinders_no_other(
    sender: StreamsBroker, proxy: FaultyProxy, queue: QueueState
) -> None:
    queue.client.set(queue.lane("default"), "no stream")
    proxy.refuse()
    sender.enqueue(new_message("stuck"))
    sender.enqueue_many([new_message(number, queue="mail") for number in range(10)])
    proxy.accept()

    wait_until(lambda: spooled(sender) == 1)
    queue.client.delete(queue.lane("default"))
    wait_until_drained(sender)

    mail = QueueState(queue.client, sender.namespace, "mail")
    assert labels(mail) == list(range(10))
    assert labels(queue) == ["stuck"]


def test_spool_keeps_what_too_few_replicas_have_and_doubles_nothing(
    make_sender: MakeSender, own_server: Server, start_server: StartServer, namespace: str
) -> None:
    replica = start_server(config=[f"replicaof 127.0.0.1 {own_server.port}"], tcp=True)
    master = own_server.client()
    wait_until(lambda: master.execute_command("WAIT", 1, 10) == 1, timeout=20)
    with FaultyProxy(own_server) as proxy:
        sender = make_sender(url=proxy.url, wait_replicas=1, wait_timeout=200)
        proxy.refuse()
        sender.enqueue_many([new_message(number) for number in range(10)])
        replica.pause()
        proxy.accept()
        wait_until(lambda: proxy.commands["WAIT"] > 2, timeout=20)
        assert spooled(sender) == 10

        replica.resume()
        wait_until_drained(sender)

        assert labels(QueueState(replica.client(), namespace)) == list(range(10))
        sender.close()


@pytest.mark.parametrize("number", range(3))
def test_flush_of_the_server_while_it_drains_loses_nothing_that_comes_after_it(
    make_sender: MakeSender, own_server: Server, namespace: str, number: int
) -> None:
    with FaultyProxy(own_server) as proxy:
        sender = make_sender(url=proxy.url)
        queue = QueueState(own_server.client(), namespace)
        proxy.refuse()
        sender.enqueue_many([new_message(label) for label in range(3_000)])
        proxy.accept()
        wait_until(lambda: queue.count() > number * 400)

        queue.client.flushall()

        wait_until_drained(sender)
        found = labels(queue)
        assert found == sorted(set(found))
        assert found == list(range(3_000 - len(found), 3_000))
        sender.close()


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
