"""Sections 2 to 5: what is refused, by the server or by middleware, holds and loses no message."""

from typing import Any

import dramatiq
import pytest
import redis
from dramatiq import Message
from dramatiq.errors import Retry
from dramatiq.middleware import Middleware
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend
from dramatiq.worker import _WorkQueueItem

from dramatiq_streams import InvalidOption, StreamsBroker
from dramatiq_streams.messages import DeliveredMessage, Entry
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.conftest import StartConsumer
from tests.contract.queue_state import QueueState, new_message
from tests.support.waiting import wait_until


def spoil_dead_letters(queue: QueueState, client: redis.Redis) -> str:
    """Make every move to the dead letters fail with WRONGTYPE; returns the key."""
    key = queue.keys.dead
    client.set(key, "not a stream")
    return key


def test_refused_dead_letter_is_delivered_again_after_its_lease(
    make_broker: MakeBroker,
    start_consumer: StartConsumer,
    queue: QueueState,
    redis_client: redis.Redis,
) -> None:
    broker = make_broker(lease=1_000)
    key = spoil_dead_letters(queue, redis_client)
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker, prefetch=1, timeout=100)
    message: Any = next(consumer)
    message.fail()

    consumer.nack(message)
    redis_client.delete(key)

    again = wait_until(lambda: next(consumer), timeout=10, message="it is delivered again")
    assert again.message_id == message.message_id
    assert again.entry.deliveries == 2


def test_nobody_is_told_of_a_message_whose_lease_was_lost_before_it_started(
    make_broker: MakeBroker, make_worker: MakeWorker
) -> None:
    backend = StubBackend()
    broker = make_broker(lease=1_000)
    broker.add_middleware(Results(backend=backend))
    told: list[str] = []

    class Listener(Middleware):
        def before_ack(self, broker: Any, message: Any) -> None:
            told.append("before_ack")

        def after_ack(self, broker: Any, message: Any) -> None:
            told.append("after_ack")

        def after_skip_message(self, broker: Any, message: Any) -> None:
            told.append("after_skip_message")

    broker.add_middleware(Listener())

    @dramatiq.actor(broker=broker, store_results=True)
    def answer() -> int:
        return 17

    worker = make_worker(broker, threads=1)
    lost = DeliveredMessage(answer.message(), Entry(1, "1-1", 1, b"", is_lost=True))
    wait_until(lambda: worker.consumers["default"].consumer, message="the worker consumes")
    worker.work_queue.put(_WorkQueueItem(0, lost))
    worker.work_queue.join()

    assert told == []
    assert backend.results == {}


def test_retry_in_the_past_is_made_at_once_and_counted(
    make_broker: MakeBroker, make_worker: MakeWorker
) -> None:
    broker = make_broker()
    runs: list[int] = []

    @dramatiq.actor(broker=broker, max_retries=3)
    def reset() -> None:
        runs.append(1)
        raise Retry(delay=-5)

    make_worker(broker, threads=1)
    reset.send()

    broker.join("default", timeout=10_000)
    assert len(runs) == 4


def test_retry_of_a_lane_that_is_no_longer_there_stays_in_the_lane_it_was_in(
    make_broker: MakeBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    broker = make_broker()
    runs: list[int] = []

    @dramatiq.actor(broker=broker, max_retries=3, min_backoff=1, max_backoff=2)
    def work() -> None:
        runs.append(1)
        if len(runs) < 3:
            raise RuntimeError("again")

    message = work.message().copy(options={"lane": "urgent"})
    queue.add_raw({"m": message.encode()}, lane="low")

    make_worker(broker, threads=1)

    broker.join("default", timeout=10_000)
    assert len(runs) == 3


def test_message_stays_when_what_decides_over_its_retry_fails(
    make_broker: MakeBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    broker = make_broker(lease=1_000, max_deliveries=2)
    runs: list[int] = []

    def decide(retries: int, exception: BaseException) -> bool:
        raise ZeroDivisionError

    @dramatiq.actor(broker=broker, retry_when=decide)
    def work() -> None:
        runs.append(1)
        raise RuntimeError("this run failed")

    make_worker(broker, threads=1)
    work.send()

    broker.join("default", timeout=20_000)
    assert len(runs) == 2
    assert [letter["reason"] for letter in queue.dead()] == [b"max_deliveries"]


def test_message_stays_when_the_next_step_of_its_pipeline_cannot_be_sent(
    make_broker: MakeBroker, make_worker: MakeWorker
) -> None:
    broker = make_broker(lease=1_000)
    done: list[str] = []

    class RefusesOnce(Middleware):
        is_willing = False

        def before_enqueue(self, broker: Any, message: Message[Any], delay: Any) -> None:
            if message.actor_name == "second" and not self.is_willing:
                self.is_willing = True
                raise dramatiq.middleware.MiddlewareError("not yet")

    broker.add_middleware(RefusesOnce())

    @dramatiq.actor(broker=broker)
    def first() -> int:
        done.append("first")
        return 1

    @dramatiq.actor(broker=broker)
    def second(one: int) -> None:
        done.append("second")

    make_worker(broker, threads=1)
    (first.message() | second.message()).run()  # type: ignore[call-arg]

    broker.join("default", timeout=15_000)
    assert done == ["first", "first", "second"]


def test_priority_none_is_no_priority(make_broker: MakeBroker, queue: QueueState) -> None:
    broker = make_broker()

    broker.enqueue(new_message(1, priority=None))

    assert queue.count() == 1


@pytest.mark.parametrize("messages", [5, [1], "ab", None])
def test_enqueue_many_names_what_is_no_message(make_broker: MakeBroker, messages: Any) -> None:
    broker = make_broker()

    with pytest.raises(InvalidOption, match="an iterable of messages"):
        broker.enqueue_many(messages)


class Nothing:
    """Can neither be shown nor be compared."""

    def __repr__(self) -> str:
        raise RuntimeError("it has no text")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("it is like nothing")

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    "name",
    [
        *("lane", "priority", "eta", "delay", "max_retries", "min_backoff", "max_backoff"),
        *("max_age", "time_limit", "retries", "throws", "unique_for", "unique_until"),
    ],
)
def test_value_that_can_neither_be_shown_nor_compared_is_refused_by_its_name(
    broker: StreamsBroker, queue: QueueState, name: str
) -> None:
    actor = dramatiq.actor(broker=broker, actor_name="work")(lambda: None)
    options: dict[str, Any] = {name: Nothing()}

    with pytest.raises(InvalidOption, match=rf"{name}=\(Nothing, which has no text\)"):
        actor.send_with_options(**options)
    assert queue.count() == 0
