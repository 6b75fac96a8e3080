"""Delays: exact, many, long, and safe on the server."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import dramatiq
import pytest
import redis

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeBroker, MakeWorker, StartServer
from tests.contract.queue_state import QueueState, new_message
from tests.support.waiting import wait_until

#: What one delayed message may be late on a machine that runs other tests, and half of several.
#: Who looked only when a blocking read ends would be late by up to a second.
LATE_MS = 500
MOSTLY_LATE_MS = 50


def declare_clock() -> tuple[dramatiq.Actor, list[tuple[float, float]]]:
    """An actor that notes when it should run and when it does, in milliseconds."""
    runs: list[tuple[float, float]] = []

    @dramatiq.actor
    def work(due_ms: float) -> None:
        runs.append((due_ms, time.time() * 1000))

    return work, runs


@pytest.mark.parametrize("timeout", [50, 1_000])
def test_delayed_messages_are_on_time(
    broker: StreamsBroker, make_worker: MakeWorker, timeout: int
) -> None:
    work, runs = declare_clock()
    make_worker(broker, timeout=timeout)

    for delay in (0, 10, 60, 150, 151, 333, 500):
        due_ms = time.time() * 1000 + delay
        work.send_with_options(args=(due_ms,), delay=delay)
    broker.join("default", timeout=5_000)

    lateness = sorted(ran - due for due, ran in runs)
    assert len(lateness) == 7
    assert lateness[0] >= -2
    assert lateness[3] <= MOSTLY_LATE_MS
    assert lateness[-1] <= LATE_MS


def test_nearer_message_is_not_held_up_by_farther_ones(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    work, runs = declare_clock()
    make_worker(broker, timeout=1_000, threads=1)
    broker.enqueue_many([work.message(0) for _ in range(3_000)], delay=600_000)

    due_ms = time.time() * 1000 + 100
    work.send_with_options(args=(due_ms,), delay=100)
    wait_until(lambda: runs)

    assert -2 <= runs[0][1] - due_ms <= LATE_MS
    broker.flush("default")


def test_thousands_of_messages_due_at_once_all_run_in_their_order(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    seen: list[int] = []
    work = dramatiq.actor(actor_name="work")(seen.append)
    for start in range(0, 3_000, 1_000):
        messages = [work.message(number) for number in range(start, start + 1_000)]
        broker.enqueue_many(messages, delay=200 + start // 100)

    make_worker(broker, threads=1)
    broker.join("default", timeout=20_000)

    assert sorted(seen) == list(range(3_000))
    thousands = [number // 1_000 for number in seen]
    assert sum(a > b for a, b in itertools.pairwise(thousands)) <= 20


def test_due_message_is_forwarded_though_no_thread_is_free(
    broker: StreamsBroker, make_broker: MakeBroker, queue: QueueState
) -> None:
    broker.enqueue_many([new_message(1), new_message(2)])
    broker.enqueue(new_message(3), delay=100)
    consumer = broker.consume("default", prefetch=2, timeout=400)
    assert next(consumer)
    assert next(consumer)

    assert next(consumer) is None
    consumer.close()

    assert queue.delayed() == []
    assert len(queue.messages()) == 3


@pytest.mark.parametrize("delay", [31 * 86_400_000, 10**13])
def test_long_delay_survives_a_restart_of_the_server(start_server: StartServer, delay: int) -> None:
    own = start_server(appendonly=True)
    broker = StreamsBroker(url=own.url)
    queue = QueueState(own.client(), "dramatiq-streams")
    before = queue.now_ms()
    sent = broker.enqueue(new_message(1), delay=delay)

    own.restart()
    consumer = broker.consume("default", timeout=100)
    assert next(consumer) is None
    consumer.close()

    [(eta, stored)] = queue.delayed()
    assert 0 <= eta - before - delay < 1_000
    assert stored.message_id == sent.message_id
    broker.close()


def test_delayed_message_needs_no_worker_when_it_becomes_due(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    work, runs = declare_clock()
    work.send_with_options(args=(0,), delay=20)
    wait_until(lambda: queue.delayed()[0][0] < queue.now_ms())

    make_worker(broker)
    broker.join("default", timeout=5_000)

    assert len(runs) == 1


def test_two_workers_run_each_delayed_message_once(
    make_broker: MakeBroker, make_worker: MakeWorker
) -> None:
    seen: list[int] = []
    brokers = [make_broker(), make_broker()]
    for broker in brokers:
        dramatiq.actor(actor_name="work", broker=broker)(seen.append)
        make_worker(broker, threads=2)

    for number in range(300):
        brokers[0].enqueue(new_message(number), delay=number % 100)
    brokers[0].join("default", timeout=10_000)

    assert sorted(seen) == list(range(300))


def test_delayed_message_is_seen_to_when_who_waited_for_it_has_gone(
    make_broker: MakeBroker, redis_client: redis.Redis
) -> None:
    def blocked() -> int:
        return int(redis_client.info("clients")["blocked_clients"])

    with ThreadPoolExecutor(2) as executor, ExitStack() as stack:
        knowing, other = (
            stack.enter_context(
                closing(make_broker().consume("default", prefetch=9, timeout=timeout))
            )
            for timeout in (1_000, 15_000)
        )
        known = executor.submit(next, knowing)
        wait_until(lambda: blocked() == 1)
        seen = executor.submit(next, other)
        wait_until(lambda: blocked() == 2)
        # It wakes the one that has been blocked for longer, and that one never reads again.
        make_broker().enqueue(new_message(), delay=2_000)
        assert known.result() is None

        assert seen.result(timeout=8) is not None
