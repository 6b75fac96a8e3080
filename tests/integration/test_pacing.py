"""What a worker has fetched ahead does not wait behind long tasks while others are idle."""

import itertools
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq.middleware import Middleware

from dramatiq_streams import StreamsBroker, clock
from dramatiq_streams.messages import encode
from dramatiq_streams.pacing import Pace
from dramatiq_streams.queues import Queues
from dramatiq_streams.spreading import LONGEST_SPACE_MS
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import QueueState
from tests.support.waiting import wait_until

THREADS = 6
ROUNDS = 5
QUICK, SLOW = "quick", "slow"

#: How long messages take that come to an end together.
TASK_SECONDS = 0.2


class Told(Middleware):
    """Notes of which messages it is told that they are processed, and settled."""

    def __init__(self) -> None:
        self.processed: list[Any] = []
        self.settled: list[Any] = []

    def after_process_message(self, broker: Any, message: Any, **_: Any) -> None:
        self.processed.append(message.args)

    def after_ack(self, broker: Any, message: Any) -> None:
        self.settled.append(message.args)

    def after_nack(self, broker: Any, message: Any) -> None:
        raise AssertionError(f"{message} was rejected")


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def make_participant(make_broker: MakeBroker, told: Told) -> Any:
    """Makes a broker whose actor notes its runs, and is slow until *proceed* is set."""

    def make(runs: list[Any], proceed: threading.Event) -> StreamsBroker:
        broker = make_broker()
        broker.add_middleware(told)

        def work(kind: str, number: int) -> None:
            runs.append((kind, number))
            if kind == SLOW:
                proceed.wait(30)

        dramatiq.actor(broker=broker)(work)
        return broker

    return make


def two_of(make_participant: Any) -> Any:
    """What lets slow messages proceed, and two brokers, each with the runs that it notes."""
    proceed = threading.Event()
    both: list[list[Any]] = [[], []]
    return proceed, *((make_participant(runs, proceed), runs) for runs in both)


def test_what_waits_behind_long_tasks_is_given_to_an_idle_worker(
    make_participant: Any,
    make_worker: MakeWorker,
    queue: QueueState,
    told: Told,
    caplog: pytest.LogCaptureFixture,
) -> None:
    proceed, (busy, busy_runs), (idle, idle_runs) = two_of(make_participant)
    work = busy.get_actor("work")
    before = [(QUICK, number) for number in range(2_000)]
    slow = [(SLOW, number) for number in range(THREADS)]
    behind = [(QUICK, number) for number in range(2_000, 2_200)]
    busy.enqueue_many([work.message(*each) for each in [*before, *slow, *behind]])

    with caplog.at_level(logging.INFO):
        make_worker(busy, threads=THREADS)
        wait_until(lambda: set(slow) <= set(busy_runs), timeout=30)
        # It has fetched far ahead while its tasks took no time, and gives up what it cannot run.
        wait_until(lambda: len(queue.held()) == THREADS)
        make_worker(idle, threads=THREADS)
        wait_until(lambda: len(busy_runs) + len(idle_runs) == 2_200 + THREADS)
        assert not proceed.is_set()

    proceed.set()
    busy.join("default", timeout=10_000)
    everything = sorted([*before, *slow, *behind])
    assert sorted([*busy_runs, *idle_runs]) == everything
    assert sorted(told.processed) == everything
    assert sorted(told.settled) == everything
    assert queue.held() == {}
    assert [record.getMessage() for record in caplog.records if "skipped" in record.message] == []


def test_what_is_beyond_the_limit_is_kept_for_a_while(
    broker: StreamsBroker, queue: QueueState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was held up for a moment does not throw away what it has fetched."""
    limits = [20]
    given_back_ms: list[float] = []
    release = Queues.release

    def note_release(self: Queues, *args: Any) -> Any:
        given_back_ms.append(clock.monotonic_ms())
        return release(self, *args)

    monkeypatch.setattr(Pace, "limit", lambda *_, **__: limits[-1])
    monkeypatch.setattr(Queues, "release", note_release)
    monkeypatch.setattr("dramatiq_streams.fetching.PATIENCE_MS", 500)
    dramatiq.actor(broker=broker, actor_name="work")(lambda: None)
    broker.enqueue_many([broker.get_actor("work").message() for _ in range(30)])
    consumer = broker.consume("default", prefetch=20, timeout=1_000)
    fetched: list[Any] = list(itertools.islice(filter(None, consumer), 20))
    began_ms = clock.monotonic_ms()

    limits.append(8)
    with consumer._holdings.carrying():  # so that the next read has something to send
        consumer.ack(fetched[0])
    assert next(consumer) is None

    assert len(queue.held()) == 8
    assert [each.entry.start() for each in fetched[1:]] == [True] * 8 + [False] * 11
    assert given_back_ms[0] - began_ms >= 500
    consumer.close()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_nothing_waits_behind_long_tasks_of_few_threads(
    make_participant: Any, make_worker: MakeWorker, queue: QueueState, threads: int
) -> None:
    proceed = threading.Event()
    runs: list[Any] = []
    broker = make_participant(runs, proceed)
    work = broker.get_actor("work")

    make_worker(broker, threads=threads)
    for number, lane in enumerate(["low", "default", "high", "low"]):
        broker.enqueue(work.message_with_options(args=(SLOW, number), lane=lane))
    wait_until(lambda: len(runs) == threads)

    wait_until(lambda: len(queue.held()) == threads)
    assert len(runs) == threads
    proceed.set()
    broker.join("default", timeout=10_000)
    assert len(runs) == 4


def test_blocked_worker_keeps_no_more_than_it_can_run_of_what_comes_to_all_lanes_at_once(
    make_participant: Any,
    make_worker: MakeWorker,
    redis_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dramatiq_streams.fetching.PATIENCE_MS", 60_000)
    proceed, (busy, busy_runs), (idle, idle_runs) = two_of(make_participant)
    work = busy.get_actor("work")
    make_worker(busy, threads=2)
    work.send(SLOW, 0)
    wait_until(lambda: len(busy_runs) == 1)
    wait_until(lambda: redis_client.info("clients")["blocked_clients"])

    with redis_client.pipeline() as transaction:
        for lane in (1, 2, 3):
            body = encode(work.message(SLOW, lane))
            add = busy._process.queues.enqueue_command("default", lane, body)
            transaction.execute_command(*add)
        transaction.execute()
    wait_until(lambda: len(busy_runs) == 2)
    make_worker(idle, threads=2)
    wait_until(lambda: len(idle_runs) == 2)

    assert busy_runs == [(SLOW, 0), (SLOW, 1)]
    proceed.set()
    busy.join("default", timeout=10_000)


def test_threads_of_other_queues_do_not_count(
    make_participant: Any, make_worker: MakeWorker, queue: QueueState
) -> None:
    proceed = threading.Event()
    runs: list[Any] = []
    broker = make_participant(runs, proceed)
    broker.declare_queue("another")
    broker.enqueue_many([broker.get_actor("work").message(SLOW, number) for number in range(9)])

    make_worker(broker, threads=4, queues={"another"})
    make_worker(broker, threads=2, queues={"default"})
    wait_until(lambda: len(runs) == 2)

    wait_until(lambda: len(queue.held()) == 2)
    proceed.set()
    broker.join("default", timeout=10_000)


def test_messages_that_end_together_are_followed_one_by_one(broker: StreamsBroker) -> None:
    dramatiq.actor(broker=broker, actor_name="work")(lambda: None)
    broker._process.advance(worker := object(), threads=THREADS)
    broker.enqueue_many([broker.get_actor("work").message() for _ in range(ROUNDS * THREADS)])
    consumer = broker.consume("default", prefetch=2 * THREADS, timeout=5_000)
    handed_out: list[float] = []
    held: list[Any] = []

    def are_handed_out(count: int) -> bool:
        # One more may be: while the first read is the only one, and was slow.
        return len(handed_out) >= count

    def work() -> None:
        for done in range(0, (ROUNDS - 1) * THREADS, THREADS):
            wait_until(partial(are_handed_out, done + THREADS))
            time.sleep(TASK_SECONDS)
            for message in held[done : done + THREADS]:
                consumer.ack(message)

    with ThreadPoolExecutor(1) as executor:
        working = executor.submit(work)
        for message in itertools.islice(filter(None, consumer), ROUNDS * THREADS):
            held.append(message)
            handed_out.append(clock.monotonic_ms())
        working.result()
    consumer.close()
    broker._process.retreat(worker, ())

    # From the third round on, since by then it is known. A busy machine makes gaps only longer,
    # but it may keep apart, now and then, what was to end together.
    took = [
        handed_out[first + THREADS - 1] - handed_out[first + 1]
        for first in range(2 * THREADS, ROUNDS * THREADS, THREADS)
    ]
    assert max(took) > 0.9 * LONGEST_SPACE_MS * (THREADS - 2)
