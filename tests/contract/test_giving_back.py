"""Section 3: `requeue` and `close`, repeated, late and with the server gone."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from dramatiq.errors import ConnectionFailed

from dramatiq_streams import StreamsBroker
from dramatiq_streams.keys import GROUP, MESSAGE_FIELD, RELEASED
from dramatiq_streams.messages import encode
from tests.conftest import MakeBroker
from tests.contract.conftest import StartConsumer, acknowledge, reject, take
from tests.contract.queue_state import QueueState, new_message
from tests.support.servers import Server
from tests.support.waiting import wait_until


def test_requeued_messages_are_at_once_anothers_at_their_old_place(
    make_broker: MakeBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    first, second = make_broker(), make_broker()
    first.enqueue_many([new_message(number) for number in range(4)])
    consumer = start_consumer(first, prefetch=3)
    messages = take(consumer, 3)

    consumer.requeue(message for message in messages)

    other = start_consumer(second, prefetch=4)
    assert [message.args[0] for message in take(other, 4)] == [0, 1, 2, 3]
    assert [delivery.deliveries for delivery in queue.held().values()] == [1, 1, 1, 1]


def test_requeue_wakes_a_worker_that_waits(
    make_broker: MakeBroker, start_consumer: StartConsumer
) -> None:
    first, second = make_broker(), make_broker()
    first.enqueue(new_message(1))
    consumer = start_consumer(first)
    messages = take(consumer, 1)
    other = start_consumer(second, timeout=10_000)

    timer = threading.Timer(0.2, consumer.requeue, [messages])
    timer.start()
    message = next(other)
    timer.join()

    assert message is not None


def test_worker_that_is_woken_and_filled_at_once_wakes_the_next_one(
    make_broker: MakeBroker,
    start_consumer: StartConsumer,
    queue: QueueState,
    redis_client: redis.Redis,
) -> None:
    holder, busy, idle = (start_consumer(make_broker(), timeout=5_000, prefetch=3) for _ in "hbi")
    body = encode(new_message("given back"))
    redis_client.xadd(queue.lane("default"), {MESSAGE_FIELD: body})
    take(holder, 1)
    ((given_back, held_by_holder),) = queue.held().items()

    with ThreadPoolExecutor(2) as executor:
        executor.submit(lambda: [next(busy) for _ in range(4)])
        wait_until(lambda: redis_client.info("clients")["blocked_clients"] == 1)
        executor.submit(next, idle)
        wait_until(lambda: redis_client.info("clients")["blocked_clients"] == 2)
        with redis_client.pipeline() as transaction:
            for lane in ("high", "default", "low"):
                transaction.xadd(queue.lane(lane), {MESSAGE_FIELD: encode(new_message(lane))})
            entries = (given_back[1],)
            transaction.xclaim(queue.lane("default"), GROUP, RELEASED, 0, entries, justid=True)
            transaction.xadd(queue.keys.wake, {"w": "1"})
            transaction.execute()

        wait_until(lambda: given_back in queue.held(), timeout=4)
        assert queue.held()[given_back].consumer != held_by_holder.consumer


@pytest.mark.parametrize("nothing", [list, lambda: iter(()), lambda: (_ for _ in "")])
def test_requeue_of_nothing_is_nothing(
    broker: StreamsBroker, start_consumer: StartConsumer, nothing: Callable[[], Any]
) -> None:
    consumer = start_consumer(broker)
    consumer.requeue(nothing())
    consumer.close()

    consumer.requeue(nothing())


def test_requeue_works_on_a_closed_consumer(
    make_broker: MakeBroker, start_consumer: StartConsumer
) -> None:
    first, second = make_broker(), make_broker()
    first.enqueue(new_message(1))
    consumer = start_consumer(first)
    messages = take(consumer, 1)
    consumer.close()

    consumer.requeue(messages)
    consumer.requeue(messages)

    assert next(start_consumer(second)) is not None


def test_requeue_leaves_settled_messages_alone(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue_many([new_message(1), new_message(2), new_message(3)])
    consumer = start_consumer(broker)
    acked, nacked, unstarted = take(consumer, 3)
    acknowledge(consumer, acked)
    reject(consumer, nacked)

    consumer.requeue([acked, nacked, unstarted])

    assert [message.args for message in queue.messages()] == [(3,)]
    assert [delivery.consumer for delivery in queue.pending().values()] == [RELEASED]


def test_close_gives_back_what_was_fetched_and_not_handed_out(
    make_broker: MakeBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    first, second = make_broker(), make_broker()
    first.enqueue_many([new_message(number) for number in range(5)])
    consumer = start_consumer(first, prefetch=5)
    take(consumer, 1)
    assert len(queue.held()) == 5

    consumer.close()

    assert len(queue.held()) == 1
    others = take(start_consumer(second), 4)
    assert [message.args[0] for message in others] == [1, 2, 3, 4]


def test_close_sends_the_acks_that_wait(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue_many([new_message(number) for number in range(5)])
    consumer = start_consumer(broker)
    messages = take(consumer, 5)
    with consumer._holdings.carrying():
        for message in messages:
            consumer.ack(message)
        assert len(queue.messages()) == 5

        consumer.close()

    assert queue.messages() == []


def test_close_is_idempotent_and_takes_back_nothing_twice(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    take(consumer, 1)

    for _ in range(3):
        consumer.close()

    assert len(queue.held()) == 1


def test_close_never_raises_with_the_server_gone(own_server: Server) -> None:
    broker = StreamsBroker(url=own_server.url)
    broker.enqueue_many([new_message(1), new_message(2), new_message(3)])
    consumer = broker.consume("default", prefetch=3, timeout=100)
    messages = take(consumer, 2)
    own_server.kill()

    consumer.ack(messages[0])
    consumer.close()
    consumer.close()

    with pytest.raises(ConnectionFailed):
        consumer.requeue(messages)
    broker.close()
