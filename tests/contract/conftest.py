"""A broker of each kind, consumers that are closed in the end, a queue read past the broker."""

from collections.abc import Callable, Iterator
from typing import Any

import dramatiq
import dramatiq.worker
import pytest
import redis
from dramatiq.broker import MessageProxy
from dramatiq.brokers.stub import StubBroker

from dramatiq_streams.consumer import StreamsConsumer
from tests.conftest import MakeBroker
from tests.contract.queue_state import QueueState

StartConsumer = Callable[..., StreamsConsumer]


@pytest.fixture(params=["stub", "streams"])
def any_broker(request: pytest.FixtureRequest, make_broker: MakeBroker) -> dramatiq.Broker:
    """Dramatiq's own StubBroker, and ours: what is asserted of both is the contract."""
    if request.param == "streams":
        return make_broker()
    broker = StubBroker()
    dramatiq.set_broker(broker)
    return broker


@pytest.fixture
def start_consumer(make_broker: MakeBroker) -> Iterator[StartConsumer]:
    """Makes consumers: `start_consumer(broker, "queue", prefetch=10, timeout=2000)`."""
    consumers: list[StreamsConsumer] = []

    def start(
        broker: Any, queue_name: str = "default", *, prefetch: int = 10, timeout: int = 2_000
    ) -> StreamsConsumer:
        consumer = broker.consume(queue_name, prefetch=prefetch, timeout=timeout)
        consumers.append(consumer)
        return consumer

    yield start
    for consumer in consumers:
        consumer.close()


@pytest.fixture
def queue(redis_client: redis.Redis, namespace: str) -> QueueState:
    """The queue "default" as the server has it."""
    return QueueState(redis_client, namespace)


@pytest.fixture
def quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dramatiq's fixed delays after errors (3 s and 5 s), made short."""
    monkeypatch.setattr(dramatiq.worker, "CONSUMER_RESTART_DELAY_SECS", 0.05)
    monkeypatch.setattr(dramatiq.worker, "POST_PROCESS_MESSAGE_RETRY_DELAY_SECS", 0.05)


def take(consumer: StreamsConsumer, count: int) -> list[MessageProxy]:
    """The next *count* messages, which have to be there."""
    messages = [next(consumer) for _ in range(count)]
    assert all(messages)
    return [message for message in messages if message is not None]


def acknowledge(consumer: StreamsConsumer, message: MessageProxy) -> None:
    """What the Worker does with a message that succeeded."""
    consumer.ack(message)


def reject(consumer: StreamsConsumer, message: MessageProxy) -> None:
    """What the Worker does with a message that failed for good."""
    message.fail()
    consumer.nack(message)
