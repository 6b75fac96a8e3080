"""A last delivery: it stays ours while its lease is extended, and what is not to run beside it."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dramatiq
import pytest
from dramatiq.broker import MessageProxy
from dramatiq.errors import ConnectionClosed

from dramatiq_streams import StreamsBroker
from dramatiq_streams.consumer import StreamsConsumer
from dramatiq_streams.executor import Executor
from dramatiq_streams.keys import GROUP, RELEASED, queue_keys
from dramatiq_streams.lanes import DEFAULT_LANES
from dramatiq_streams.leases import Leases
from dramatiq_streams.messages import Entry
from tests.contract.conftest import take
from tests.faults.conftest import Stage
from tests.faults.scene import Scene, script
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until


def declare(
    broker: dramatiq.Broker, deed: Callable[[str], None], name: str, *, queue_name: str
) -> dramatiq.Actor[Any, Any]:
    return dramatiq.actor(broker=broker, actor_name=name, queue_name=queue_name)(deed)


def condemn(scene: Scene, queue_name: str = "default") -> None:
    """Have what waits in a queue be as if a worker had died with all of it."""
    scene.broker._process.queues.ensure_groups(queue_name)
    lane = queue_keys(scene.broker.namespace, queue_name, tuple(DEFAULT_LANES)).lanes[1]
    read: Any = scene.client.xreadgroup(GROUP, "dead", {lane: ">"})
    ids = [entry_id for entry_id, _ in read[0][1]]
    scene.client.xclaim(lane, GROUP, RELEASED, 0, ids, retrycount=1)


@pytest.fixture
def scene(stage: Stage, server: Server, proxy: FaultyProxy) -> Scene:
    return stage(server, url=proxy.url, max_deliveries=2)


@pytest.fixture
def last(scene: Scene) -> Entry:
    """A message that one worker died with, now fetched by this process."""
    queues = scene.broker._process.queues
    scene.actors.note.send("last")
    condemn(scene)
    reading = queues.read("default", 1, shares=[1, 1, 1], acks=[], watch=False)
    (entry,) = reading.entries
    assert entry.is_last
    return entry


class Interrupted:
    """The connection of a scene, on which *meanwhile* is done right before each command."""

    def __init__(self, executor: Executor, meanwhile: Any) -> None:
        self._executor = executor
        self._meanwhile = meanwhile

    def execute(self, *command: Any, **options: Any) -> Any:
        self._meanwhile()
        return self._executor.execute(*command, **options)


def leases(scene: Scene, runs: Any) -> Leases:
    return Leases(runs, scene.broker._process._scope)


def test_last_delivery_that_begins_while_leases_are_extended_is_not_lost(
    scene: Scene, last: Entry
) -> None:
    process = scene.broker._process
    runs = Interrupted(process.executor, lambda: process.queues.begin("default", last))

    assert leases(scene, runs).extend("default", [last]) == []
    assert last.has_begun
    assert leases(scene, process.executor).extend("default", [last]) == []


def test_last_delivery_whose_answer_is_not_there_yet_is_not_lost_before(
    scene: Scene, last: Entry, proxy: FaultyProxy
) -> None:
    process = scene.broker._process
    proxy.drop_reply(script("begin"))
    with pytest.raises(ConnectionClosed):
        process.queues.begin("default", last)

    assert leases(scene, process.executor).extend("default", [last]) == []
    assert not process.queues.begin("default", last)


def test_last_delivery_that_waits_is_lost_like_any_other(scene: Scene, last: Entry) -> None:
    scene.client.xclaim(scene.keys.lanes[1], GROUP, "another", 0, [last.entry_id])

    assert leases(scene, scene.broker._process.executor).extend("default", [last]) == [last]


def test_last_delivery_that_has_begun_is_lost_like_any_other(scene: Scene, last: Entry) -> None:
    process = scene.broker._process
    assert process.queues.begin("default", last)
    scene.client.xclaim(scene.keys.lanes[1], GROUP, "another", 0, [last.entry_id])

    assert leases(scene, process.executor).extend("default", [last]) == [last]


@pytest.mark.parametrize("is_busy", [True, False])
def test_what_was_fetched_with_a_last_delivery_goes_back_while_it_waits_or_runs(
    scene: Scene, is_busy: bool
) -> None:
    scene.actors.hold.send("suspect")
    condemn(scene)
    if is_busy:
        scene.actors.hold.send_with_options(args=("busy",), lane="high")
    notes = scene.send_notes(8)

    command = scene.start_victim(threads=2, prefetch=20)
    scene.wait_until_started("busy" if is_busy else "suspect")
    scene.wait_for_holder(command, messages=1 + is_busy)
    scene.start_survivor(threads=2)
    wait_until(lambda: set(scene.journal.counts()) == notes, message="all else has run")
    scene.journal.allow("go")

    scene.join(seconds=10)
    held = {"suspect", "busy"} if is_busy else {"suspect"}
    assert scene.journal.counts() == dict.fromkeys(held | notes, 1)


def test_suspects_of_several_queues_run_one_after_the_other(scene: Scene) -> None:
    lock, running, company, ran = threading.Lock(), list[str](), list[str](), list[str]()
    overlap = threading.Event()

    def work(label: str) -> None:
        with lock:
            running.append(label)
            if len(running) > 1 and any("suspect" in each for each in running):
                company.append(label)
        overlap.wait(0.02)  # it is never set: so that they would overlap
        with lock:
            running.remove(label)
            ran.append(label)

    expected = set()
    for queue_name in ("a", "b", "c"):
        actor = declare(scene.broker, work, f"work_{queue_name}", queue_name=queue_name)
        for kind in ("suspect", "innocent"):
            labels = [f"{kind} {queue_name}{number}" for number in range(5)]
            scene.broker.enqueue_many([actor.message(label) for label in labels])
            expected.update(labels)
            if kind == "suspect":
                condemn(scene, queue_name)

    worker = scene.start_survivor(threads=4)
    for queue_name in ("a", "b", "c"):
        scene.broker.join(queue_name, timeout=20_000)
    worker.stop()

    assert company == []
    assert sorted(ran) == sorted(expected)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


class Alone:
    """This process, with a suspect that runs, and a blocked reader of the queue `other`."""

    def __init__(self, scene: Scene, threads: ThreadPoolExecutor) -> None:
        self.scene = scene
        self.other = declare(scene.broker, scene.actors.note.fn, "other", queue_name="other")
        scene.actors.note.send("suspect")
        condemn(scene)
        self.blocked = scene.broker.consume("other", prefetch=10, timeout=3_000)
        self.coming = threads.submit(next, self.blocked)
        scene.wait_until_blocked()
        self.consumer = scene.broker.consume("default", prefetch=10, timeout=3_000)
        (self.suspect,) = take(self.consumer, 1)

    def close(self) -> None:
        self.consumer.close()
        self.blocked.close()


@pytest.fixture
def alone(scene: Scene, threads: ThreadPoolExecutor) -> Iterator[Alone]:
    made = Alone(scene, threads)
    yield made
    made.close()


@pytest.fixture
def another(scene: Scene, server: Server) -> Iterator[StreamsConsumer]:
    """A reader of `other` in another process, whose next takes five times as long as blocked's."""
    broker = StreamsBroker(url=server.url, namespace=scene.broker.namespace)
    consumer = broker.consume("other", prefetch=10, timeout=15_000)
    yield consumer
    consumer.close()
    broker.close()


def label_of(message: MessageProxy | None) -> str | None:
    return None if message is None else message.args[0]


def test_what_a_blocked_reader_gets_while_a_suspect_runs_goes_to_another_process(
    alone: Alone, another: StreamsConsumer
) -> None:
    alone.other.send("brought")

    assert label_of(next(another)) == "brought"
    assert alone.coming.result(10) is None


def test_wake_up_call_that_comes_to_a_process_with_a_suspect_is_passed_on(
    alone: Alone, another: StreamsConsumer, threads: ThreadPoolExecutor
) -> None:
    scene = alone.scene
    coming = threads.submit(next, another)
    scene.wait_until_blocked(2)
    keys = queue_keys(scene.broker.namespace, "other", tuple(DEFAULT_LANES))
    with scene.client.pipeline() as at_once:  # somebody gives a message back
        at_once.xadd(keys.lanes[1], {"m": alone.other.message("given back").encode()}, "9-1")
        at_once.xreadgroup(GROUP, "third", {keys.lanes[1]: ">"})
        at_once.xclaim(keys.lanes[1], GROUP, RELEASED, 0, ["9-1"])
        at_once.xadd(keys.wake, {"w": "1"})
        at_once.execute()

    assert label_of(coming.result(5)) == "given back"


def test_end_of_a_suspect_is_noticed_at_once_in_the_other_queues(
    alone: Alone, threads: ThreadPoolExecutor
) -> None:
    assert alone.coming.result(10) is None
    coming = threads.submit(next, alone.blocked)
    alone.other.send("after")

    with pytest.raises(TimeoutError):
        coming.result(0.5)
    alone.consumer.ack(alone.suspect)

    assert label_of(coming.result(1)) == "after"


def test_worker_that_stops_does_not_wait_for_who_stands_by(
    alone: Alone, threads: ThreadPoolExecutor
) -> None:
    process, worker = alone.scene.broker._process, object()
    process.advance(worker, threads=1)
    assert alone.coming.result(10) is None
    coming = threads.submit(next, alone.blocked)
    with pytest.raises(TimeoutError):
        coming.result(0.3)

    process.retreat(worker, [])

    assert coming.result(1) is None
