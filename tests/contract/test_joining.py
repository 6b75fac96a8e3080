"""Section 2: `join`, `flush`, `flush_all`."""

import subprocess
import sys
import threading
import time

import dramatiq
import pytest
from dramatiq.errors import QueueJoinTimeout

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.conftest import StartConsumer
from tests.contract.queue_state import QueueState, new_message
from tests.support.servers import Server
from tests.support.waiting import wait_until


def is_joined(broker: dramatiq.Broker, name: str = "default") -> bool:
    try:
        broker.join(name, timeout=1)
    except QueueJoinTimeout:
        return False
    return True


def test_join_of_an_empty_queue_returns_at_once(any_broker: dramatiq.Broker) -> None:
    any_broker.declare_queue("default")

    any_broker.join("default", timeout=1_000)


def test_join_of_a_queue_nobody_declared_returns_at_once(broker: StreamsBroker) -> None:
    broker.join("nowhere", timeout=1)
    broker.join("nowhere")


def test_join_counts_a_message_until_it_is_settled(any_broker: dramatiq.Broker) -> None:
    any_broker.declare_queue("default")
    joined: list[bool] = []

    any_broker.enqueue(new_message(1))
    joined.append(is_joined(any_broker))
    consumer = any_broker.consume("default", prefetch=1, timeout=1_000)
    message = next(consumer)
    assert message is not None
    joined.append(is_joined(any_broker))
    consumer.ack(message)
    any_broker.join("default", timeout=10_000)
    consumer.close()

    assert joined == [False, False]


@pytest.mark.parametrize("delay", [0, 20, 60_000])
def test_join_counts_a_delayed_message(any_broker: dramatiq.Broker, delay: int) -> None:
    any_broker.declare_queue("default")

    any_broker.enqueue(new_message(1), delay=delay)

    assert not is_joined(any_broker)


def test_join_waits_for_retries_and_whatever_a_message_caused(
    any_broker: dramatiq.Broker, make_worker: MakeWorker
) -> None:
    done: list[str] = []

    @dramatiq.actor(max_retries=2, min_backoff=50, max_backoff=60)
    def first() -> None:
        done.append("first")
        if done.count("first") < 3:
            raise ZeroDivisionError
        second.send_with_options(delay=50)

    @dramatiq.actor
    def second() -> None:
        done.append("second")

    first.send()
    make_worker(any_broker)
    any_broker.join("default", timeout=10_000)

    assert done == ["first", "first", "first", "second"]


def test_join_raises_when_its_time_is_over_and_not_before(any_broker: dramatiq.Broker) -> None:
    any_broker.declare_queue("default")
    any_broker.enqueue(new_message(1))

    started = time.monotonic()
    with pytest.raises(QueueJoinTimeout):
        any_broker.join("default", timeout=150)

    assert 0.14 <= time.monotonic() - started < 3


def test_join_without_a_timeout_waits_until_the_queue_is_empty(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    message = next(consumer)
    assert message is not None
    joiner = threading.Thread(target=broker.join, args=["default"], daemon=True)
    joiner.start()

    joiner.join(0.2)
    assert joiner.is_alive()
    consumer.ack(message)
    joiner.join(5)

    assert not joiner.is_alive()


def test_join_accepts_the_name_of_the_delay_queue(broker: StreamsBroker) -> None:
    broker.enqueue(new_message(1), delay=60_000)

    assert not is_joined(broker, "default.DQ")


JOIN = """
import sys
from dramatiq_streams import StreamsBroker
StreamsBroker(url=sys.argv[1], namespace=sys.argv[2]).join("default", timeout=20_000)
"""


def test_another_process_can_join(
    server: Server, namespace: str, broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    message = next(consumer)
    assert message is not None
    joiner = subprocess.Popen([sys.executable, "-c", JOIN, server.url, namespace])

    with pytest.raises(subprocess.TimeoutExpired):
        joiner.wait(1.0)
    consumer.ack(message)

    assert joiner.wait(20) == 0


def test_join_after_a_flush_returns_at_once(any_broker: dramatiq.Broker) -> None:
    any_broker.declare_queue("default")
    for number in range(5):
        any_broker.enqueue(new_message(number))

    any_broker.flush("default")

    any_broker.join("default", timeout=1_000)


def test_flush_drops_waiting_delivered_delayed_and_dead(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    for lane in ("high", "default", "low"):
        broker.enqueue_many([new_message(number, lane=lane) for number in range(3)])
    broker.enqueue(new_message(1), delay=60_000)
    consumer = start_consumer(broker, prefetch=4)
    delivered = next(consumer)
    assert delivered is not None
    delivered.fail()
    consumer.nack(delivered)
    assert next(consumer)

    broker.flush("default")

    assert queue.count() == 0
    assert queue.pending() == {}
    assert queue.dead() == []
    assert queue.client.hlen(queue.keys.delayed_messages) == 0
    broker.join("default", timeout=1)


@pytest.mark.parametrize("name", ["default", "default.DQ", "nowhere"])
def test_flush_of_a_queue_that_has_nothing_does_nothing(broker: StreamsBroker, name: str) -> None:
    broker.flush(name)
    broker.flush(name)

    broker.join(name, timeout=1)


def test_flush_leaves_other_queues_and_namespaces_alone(
    make_broker: MakeBroker, namespace: str
) -> None:
    broker = make_broker()
    broker.enqueue(new_message(1))
    broker.enqueue(new_message(1, queue="other"))

    broker.flush("default")

    assert not is_joined(broker, "other")


def test_flush_all_covers_every_declared_queue(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    for name in ("first", "second"):
        broker.declare_queue(name)
        broker.enqueue(new_message(1, queue=name))
        broker.enqueue(new_message(1, queue=name), delay=60_000)
    broker.enqueue(new_message(1, queue="undeclared"))

    broker.flush_all()

    assert is_joined(broker, "first")
    assert is_joined(broker, "second")
    assert not is_joined(broker, "undeclared")


@pytest.mark.parametrize("settle", ["ack", "nack", "requeue", "close"])
def test_settling_what_was_flushed_has_no_effect(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState, settle: str
) -> None:
    broker.enqueue_many([new_message(1), new_message(2)])
    consumer = start_consumer(broker)
    message = next(consumer)
    assert message is not None
    broker.flush("default")

    if settle == "close":
        consumer.close()
    else:
        getattr(consumer, settle)([message] if settle == "requeue" else message)
    sent = broker.enqueue(new_message(3))

    assert queue.messages() == [sent]
    assert queue.dead() == []


def test_late_ack_does_not_hit_a_message_sent_after_the_flush(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue_many([new_message(number) for number in range(3)])
    consumer = start_consumer(broker, prefetch=3)
    old = [next(consumer) for _ in range(3)]
    broker.flush("default")
    broker.enqueue_many([new_message(number) for number in range(10, 13)])
    other = start_consumer(broker, prefetch=3)
    for message in old:
        assert message is not None
        consumer.ack(message)

    delivered = [next(other) for _ in range(3)]

    assert [message.args[0] for message in delivered if message] == [10, 11, 12]
    assert len(queue.messages()) == 3


def test_worker_goes_on_after_a_flush(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    runs: list[int] = []
    dramatiq.actor(actor_name="work")(runs.append)
    worker = make_worker(broker, timeout=2_000)
    wait_until(lambda: any("b" in found["flags"] for found in queue.client.client_list()))
    restarts = len(worker.consumers)

    for number in range(5):
        broker.flush("default")
        broker.enqueue(new_message(number))
        broker.join("default", timeout=5_000)

    assert runs == list(range(5))
    assert len(worker.consumers) == restarts


def test_deleted_keys_are_made_anew(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    runs: list[int] = []
    dramatiq.actor(actor_name="work")(runs.append)
    make_worker(broker, timeout=2_000)
    wait_until(lambda: any("b" in found["flags"] for found in queue.client.client_list()))

    for number in range(5):
        queue.client.delete(*queue.keys.lanes, queue.keys.wake, queue.keys.delayed)
        broker.enqueue(new_message(number))
        broker.join("default", timeout=5_000)

    assert runs == list(range(5))
