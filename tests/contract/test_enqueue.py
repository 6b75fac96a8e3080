"""Section 2 (`enqueue`, signals of it) and section 8 (options survive the encoder)."""

from typing import Any

import dramatiq
import pytest
from dramatiq.broker import MessageProxy
from dramatiq.message import Message
from dramatiq.middleware import Middleware, MiddlewareError

from dramatiq_streams import StreamsBroker, UnknownLane
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.conftest import StartConsumer
from tests.contract.queue_state import QueueState, new_message


class EnqueueSignals(Middleware):
    """Notes what the signals around enqueue carry; may be told to change or to refuse it."""

    def __init__(self, *, change: dict[str, Any] | None = None, refusal: Any = None) -> None:
        self.seen: list[tuple[str, Message[Any], Any]] = []
        self.change = change or {}
        self.refusal = refusal

    def before_enqueue(self, broker, message, delay) -> None:
        self.seen.append(("before", message, delay))
        message.options.update(self.change)
        if self.refusal is not None:
            raise self.refusal

    def after_enqueue(self, broker, message, delay) -> None:
        self.seen.append(("after", message, delay))


def consume_one(broker: dramatiq.Broker, name: str = "default") -> MessageProxy:
    """The first message of a queue; its consumer's end gives it back."""
    consumer = broker.consume(name, prefetch=1, timeout=2_000)
    message = next(consumer)
    consumer.close()
    assert message is not None
    return message


def test_enqueue_returns_the_message(any_broker: dramatiq.Broker) -> None:
    any_broker.declare_queue("default")
    message = new_message(1, colour="blue")

    enqueued = any_broker.enqueue(message)

    assert isinstance(enqueued, Message)
    assert enqueued == message
    assert enqueued.message_id == message.message_id


def test_delivered_message_equals_the_enqueued_one(any_broker: dramatiq.Broker) -> None:
    any_broker.declare_queue("default")
    message: Message[Any] = Message(
        queue_name="default",
        actor_name="work",
        args=(1, "zwölf", None, [2.5, {"a": True}]),
        kwargs={"key": "välue"},
        options={"pipe_target": new_message(2).asdict(), "n": 1},
    )

    any_broker.enqueue(message)

    delivered = consume_one(any_broker)
    assert (delivered.args, delivered.kwargs) == (message.args, message.kwargs)
    assert delivered.message_id == message.message_id
    assert delivered.message_timestamp == message.message_timestamp
    assert delivered.options["n"] == 1
    assert (
        delivered.options["pipe_target"]["message_id"]
        == (message.options["pipe_target"]["message_id"])
    )


def test_proxy_is_enqueued_as_a_second_message(any_broker: dramatiq.Broker) -> None:
    any_broker.declare_queue("default")
    any_broker.enqueue(new_message(1))
    consumer = any_broker.consume("default", prefetch=5, timeout=2_000)
    proxy = next(consumer)
    assert proxy is not None

    any_broker.enqueue(proxy)  # type: ignore[arg-type]

    again = next(consumer)
    assert again is not None
    assert again is not proxy
    assert again.message_id == proxy.message_id
    consumer.ack(again)
    consumer.ack(proxy)
    consumer.close()
    any_broker.join("default", timeout=1_000)


def test_enqueueing_a_proxy_returns_a_plain_message(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    broker.enqueue(new_message(1))
    proxy = next(start_consumer(broker))
    assert proxy is not None

    enqueued = broker.enqueue(proxy)  # type: ignore[arg-type]

    assert type(enqueued) is Message


@pytest.mark.parametrize("delay", [None, 0, 50_000])
def test_callers_message_is_never_changed(any_broker: dramatiq.Broker, delay: int | None) -> None:
    any_broker.declare_queue("default")
    message = new_message(1, nested={"a": [1]})
    before = message.encode()

    any_broker.enqueue(message, delay=delay)

    assert message.encode() == before


@pytest.mark.parametrize("delay", [None, 0, 1, 50_000])
def test_id_and_timestamp_survive_every_delay(
    any_broker: dramatiq.Broker, delay: int | None
) -> None:
    any_broker.declare_queue("default")
    message = new_message(1).copy(message_timestamp=1_000_000_000_123)

    enqueued = any_broker.enqueue(message, delay=delay)

    assert enqueued.message_id == message.message_id
    assert enqueued.message_timestamp == 1_000_000_000_123


def test_delayed_message_keeps_id_timestamp_and_options_when_it_is_due(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    message = new_message(1, colour="blue").copy(message_timestamp=1_000_000_000_123)

    broker.enqueue(message, delay=30)

    delivered = next(start_consumer(broker))
    assert delivered is not None
    assert delivered._message == message


@pytest.mark.parametrize("delay", [None, 0, 60_000])
def test_signals_surround_the_write_and_carry_the_message_as_enqueued(
    any_broker: dramatiq.Broker, delay: int | None
) -> None:
    any_broker.declare_queue("default")
    signals = EnqueueSignals()
    any_broker.add_middleware(signals)

    enqueued = any_broker.enqueue(new_message(1), delay=delay)

    assert [(name, seen_delay) for name, _, seen_delay in signals.seen] == [
        ("before", delay),
        ("after", delay),
    ]
    assert all(message == enqueued for _, message, _ in signals.seen)
    assert ("eta" in enqueued.options) == (delay is not None)


def test_message_is_not_written_before_before_enqueue_and_is_at_after_enqueue(
    broker: StreamsBroker, queue: QueueState
) -> None:
    counts: list[int] = []

    class Counter(Middleware):
        def before_enqueue(self, broker, message, delay) -> None:
            counts.append(queue.count())

        after_enqueue = before_enqueue

    broker.add_middleware(Counter())

    broker.enqueue(new_message(1))
    broker.enqueue(new_message(2), delay=60_000)

    assert counts == [0, 1, 1, 2]


@pytest.mark.parametrize("delay", [None, 60_000])
def test_middleware_error_leaves_enqueue_and_nothing_is_written(
    any_broker: dramatiq.Broker, queue: QueueState, delay: int | None
) -> None:
    any_broker.declare_queue("default")
    signals = EnqueueSignals(refusal=MiddlewareError("not today"))
    any_broker.add_middleware(signals)

    with pytest.raises(MiddlewareError, match="not today"):
        any_broker.enqueue(new_message(1), delay=delay)

    assert queue.count() == 0
    assert [name for name, _, _ in signals.seen] == ["before"]
    any_broker.join("default", timeout=1_000)


def test_any_other_error_of_middleware_is_swallowed(any_broker: dramatiq.Broker) -> None:
    any_broker.declare_queue("default")
    any_broker.add_middleware(EnqueueSignals(refusal=ZeroDivisionError()))
    message = new_message(1)

    any_broker.enqueue(message)

    assert consume_one(any_broker).message_id == message.message_id


@pytest.mark.parametrize("delay", [None, 10])
def test_options_that_middleware_changes_are_stored(
    broker: StreamsBroker, start_consumer: StartConsumer, delay: int | None
) -> None:
    broker.add_middleware(EnqueueSignals(change={"trace": "abc"}))

    broker.enqueue(new_message(1), delay=delay)

    delivered = next(start_consumer(broker))
    assert delivered is not None
    assert delivered.options == {"trace": "abc"}


def test_middleware_may_choose_the_lane(broker: StreamsBroker, queue: QueueState) -> None:
    broker.add_middleware(EnqueueSignals(change={"lane": "high"}))

    broker.enqueue(new_message(1))

    assert len(queue.entries("high")) == 1


def test_unknown_lane_of_middleware_is_refused_and_nothing_written(
    broker: StreamsBroker, queue: QueueState
) -> None:
    broker.add_middleware(EnqueueSignals(change={"lane": "fast"}))

    with pytest.raises(UnknownLane, match="'fast'"):
        broker.enqueue(new_message(1))

    assert queue.count() == 0


@pytest.mark.parametrize("delay", [None, 60_000])
@pytest.mark.parametrize("argument", [object(), b"bytes", {1, 2}], ids=["object", "bytes", "set"])
def test_unencodable_arguments_fail_in_the_caller(
    any_broker: dramatiq.Broker, queue: QueueState, argument: object, delay: int | None
) -> None:
    any_broker.declare_queue("default")

    with pytest.raises(TypeError, match="not JSON serializable"):
        any_broker.enqueue(new_message(argument), delay=delay)

    assert queue.count() == 0
    any_broker.join("default", timeout=1_000)


def test_queue_need_not_be_declared(broker: StreamsBroker, start_consumer: StartConsumer) -> None:
    broker.enqueue(new_message(1, queue="never-declared"))

    delivered = next(start_consumer(broker, "never-declared"))
    assert delivered is not None
    assert delivered.args == (1,)


def test_message_of_a_delay_queue_goes_to_its_canonical_queue(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    broker.enqueue(new_message(1, queue="default.DQ"))

    delivered = next(start_consumer(broker))
    assert delivered is not None
    assert delivered.queue_name == "default"


def test_one_message_id_may_be_enqueued_several_times(
    broker: StreamsBroker, queue: QueueState
) -> None:
    message = new_message(1)

    for delay in (None, None, 60_000, 60_000):
        broker.enqueue(message, delay=delay)

    assert queue.count() == 4


def test_age_limit_sees_the_first_timestamp_after_a_delay(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    runs: list[int] = []
    actor = dramatiq.actor(actor_name="work", max_age=50)(runs.append)
    make_worker(broker)

    actor.send_with_options(args=(1,), delay=120)
    broker.join("default", timeout=5_000)

    assert runs == []
    assert [letter["reason"] for letter in queue.dead()] == [b"failed"]


def test_keyword_arguments_of_other_integrations_construct_a_broker(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(middleware=[EnqueueSignals()])

    broker.flush_all()

    assert broker.get_declared_queues() == set()
