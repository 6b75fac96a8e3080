"""Sections 2 and 5: a retry replaces its original in one step, and a failed one loses nothing.

Retries passes the proxy it was given to `enqueue`, with `retries` raised; what goes wrong there
is swallowed by dramatiq, which then acknowledges the original.
"""

import threading
import time
from typing import Any

import dramatiq
import pytest
from dramatiq.message import Message
from dramatiq.middleware import CurrentMessage, Middleware, MiddlewareError

from dramatiq_streams import InvalidOption, StreamsBroker
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.conftest import StartConsumer
from tests.contract.queue_state import QueueState, new_message
from tests.contract.retrying import deliver


@pytest.mark.parametrize("delay", [None, 0, 60_000])
def test_retry_replaces_its_original(
    broker: StreamsBroker,
    start_consumer: StartConsumer,
    queue: QueueState,
    delay: int | None,
) -> None:
    sent = broker.enqueue(new_message(1, colour="blue"))
    message = deliver(start_consumer(broker))

    retry = broker.enqueue(message, delay=delay)  # type: ignore[arg-type]

    assert type(retry) is Message
    assert queue.pending() == {}
    [stored] = queue.messages() if delay is None else [found for _, found in queue.delayed()]
    assert stored == sent.copy(options={"retries": 1})
    assert queue.count() == 1


def test_original_that_was_replaced_is_not_acknowledged_again(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    message = deliver(consumer)

    broker.enqueue(message)  # type: ignore[arg-type]
    consumer.ack(message)
    consumer.ack(message)

    assert queue.count() == 1
    again = next(consumer)
    assert again is not None
    assert again.options == {"retries": 1}


def test_retry_of_a_retry_replaces_it_too(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker, timeout=1_000)

    for retries in (1, 2, 3):
        message = deliver(consumer)
        assert message.options["retries"] == retries
        broker.enqueue(message, delay=5)  # type: ignore[arg-type]
        consumer.ack(message)

    assert queue.count() == 1


def test_every_reading_of_the_queue_shows_exactly_one_message(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    attempts: list[int] = []

    @dramatiq.actor(max_retries=30, min_backoff=1, max_backoff=2)
    def work() -> None:
        attempts.append(len(attempts))
        if len(attempts) <= 25:
            raise ZeroDivisionError

    sizes: set[int] = set()
    work.send()
    make_worker(broker)
    while True:
        size = broker._process.queues.size("default")
        if len(attempts) == 26:  # Then it may be done as well.
            break
        sizes.add(size)
    broker.join("default", timeout=10_000)

    assert sizes == {1}
    assert attempts == list(range(26))
    assert queue.dead() == []


def test_signals_of_a_retry_are_those_of_any_message(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    seen: list[tuple[str, dict[str, Any], int | None]] = []

    class Signals(Middleware):
        def before_enqueue(self, broker, message, delay) -> None:
            seen.append(("before", dict(message.options), delay))

        def after_enqueue(self, broker, message, delay) -> None:
            seen.append(("after", dict(message.options), delay))

    broker.enqueue(new_message(1))
    broker.add_middleware(Signals())
    message = deliver(start_consumer(broker))

    broker.enqueue(message, delay=50)  # type: ignore[arg-type]

    assert [(name, delay) for name, _, delay in seen] == [("before", 50), ("after", 50)]
    assert all(options["retries"] == 1 and "eta" in options for _, options, _ in seen)


def test_message_whose_lease_was_lost_is_not_replaced(
    make_broker: MakeBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    first, second = make_broker(), make_broker()
    first.enqueue(new_message(1))
    message = deliver(start_consumer(first))
    [(_, entry)] = queue.pending()
    key = queue.lane("default")
    queue.client.xclaim(key, "workers", "released", min_idle_time=0, message_ids=[entry])
    assert next(start_consumer(second))

    first.enqueue(message)  # type: ignore[arg-type]

    assert queue.count() == 1
    assert list(queue.held()) == [("default", entry)]


class Refusing(Middleware):
    """Refuses every retry, as a middleware with a quota might."""

    def before_enqueue(self, broker, message, delay) -> None:
        if message.options.get("retries"):
            raise MiddlewareError("no more retries today")


def test_retry_that_middleware_refuses_keeps_the_original(
    make_broker: MakeBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker = make_broker(lease=1_000)
    broker.add_middleware(Refusing())
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    message = deliver(consumer)

    with pytest.raises(MiddlewareError):
        broker.enqueue(message)  # type: ignore[arg-type]
    consumer.ack(message)

    assert [m.options for m in queue.messages()] == [{}]
    again = next(start_consumer(broker, timeout=5_000))
    assert again is not None
    assert again.message_id == message.message_id


@pytest.mark.parametrize("delay", [10**14, "soon"])
def test_impossible_delay_of_a_retry_keeps_the_original(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState, delay: Any
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    message = deliver(consumer)

    with pytest.raises(InvalidOption):
        broker.enqueue(message, delay=delay)  # type: ignore[arg-type]
    consumer.ack(message)

    assert [m.options for m in queue.messages()] == [{}]


def test_retry_that_cannot_be_encoded_keeps_the_original(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    message = deliver(consumer)
    message.options["handle"] = object()

    with pytest.raises(TypeError):
        broker.enqueue(message)  # type: ignore[arg-type]
    consumer.ack(message)

    assert [m.options for m in queue.messages()] == [{}]


def test_broken_retries_end_as_a_dead_letter_and_not_in_a_loop(
    make_broker: MakeBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    broker = make_broker(lease=1_000, max_deliveries=2)
    broker.add_middleware(Refusing())
    attempts: list[int] = []

    @dramatiq.actor(min_backoff=1)
    def work() -> None:
        attempts.append(1)
        raise ZeroDivisionError

    work.send()
    make_worker(broker)
    broker.join("default", timeout=15_000)

    assert len(attempts) == 2
    assert [letter["reason"] for letter in queue.dead()] == [b"max_deliveries"]


def test_message_that_is_enqueued_again_by_its_actor_is_a_second_one(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:

    broker.add_middleware(CurrentMessage())
    runs: list[int] = []

    @dramatiq.actor
    def work() -> None:
        runs.append(threading.get_ident())
        message = CurrentMessage.get_current_message()
        assert message is not None
        if len(runs) < 3:
            broker.enqueue(message)

    work.send()
    make_worker(broker, threads=1)
    broker.join("default", timeout=5_000)

    assert len(runs) == 3


def test_retry_after_a_flush_is_dropped(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    message = deliver(consumer)
    broker.flush("default")

    broker.enqueue(message)  # type: ignore[arg-type]
    consumer.ack(message)

    assert queue.count() == 0


def test_rate_of_retries_follows_the_backoff(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    starts: list[float] = []

    @dramatiq.actor(max_retries=1, min_backoff=400, max_backoff=400)
    def work() -> None:
        starts.append(time.monotonic())
        raise ZeroDivisionError

    work.send()
    make_worker(broker)
    broker.join("default", timeout=10_000)

    # dramatiq spreads a backoff between a half and the whole of it; by default it is 15 seconds.
    assert 0.19 <= starts[1] - starts[0] < 5
