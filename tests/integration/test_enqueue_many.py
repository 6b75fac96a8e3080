"""Many messages in few round trips, and what is known when that breaks."""

from typing import Any

import dramatiq
import pytest
from dramatiq.message import Message
from dramatiq.middleware import Middleware, MiddlewareError

from dramatiq_streams import InvalidOption, PartlyEnqueued, StreamsBroker
from tests.conftest import MakeBroker, StartServer
from tests.contract.queue_state import QueueState, new_message
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server


def numbers(messages: list[Message[Any]]) -> list[int]:
    return [message.args[0] for message in messages]


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 2_500])
@pytest.mark.parametrize("delay", [None, 60_000])
def test_all_are_enqueued_in_order(
    broker: StreamsBroker, queue: QueueState, count: int, delay: int | None
) -> None:
    messages = [new_message(number) for number in range(count)]

    enqueued = broker.enqueue_many(messages, delay=delay)

    stored = [found for _, found in queue.delayed()] if delay else queue.messages()
    assert {message.message_id for message in stored} == {m.message_id for m in messages}
    assert numbers(enqueued) == list(range(count))
    assert all(("eta" in message.options) == (delay is not None) for message in enqueued)
    if delay is None:
        assert numbers(stored) == list(range(count))


def test_a_generator_and_mixed_queues_and_lanes_will_do(
    broker: StreamsBroker, queue: QueueState, namespace: str
) -> None:
    names = ["default", "other"]
    lanes = ["high", "low"]

    broker.enqueue_many(
        new_message(n, queue=names[n % 2], lane=lanes[n // 2 % 2]) for n in range(40)
    )

    other = QueueState(queue.client, namespace, "other")
    assert numbers(queue.entries("high")) == list(range(0, 40, 4))
    assert numbers(queue.entries("low")) == list(range(2, 40, 4))
    assert numbers(other.entries("high")) == list(range(1, 40, 4))


def test_signals_are_those_of_single_messages(broker: StreamsBroker) -> None:
    seen: list[tuple[str, int]] = []

    class Signals(Middleware):
        def before_enqueue(self, broker, message, delay) -> None:
            seen.append(("before", message.args[0]))

        def after_enqueue(self, broker, message, delay) -> None:
            seen.append(("after", message.args[0]))

    broker.add_middleware(Signals())

    broker.enqueue_many([new_message(number) for number in range(3)])

    assert [name for name, _ in seen] == ["before"] * 3 + ["after"] * 3
    assert [number for _, number in seen] == [0, 1, 2, 0, 1, 2]


def test_an_impossible_option_anywhere_sends_nothing(
    broker: StreamsBroker, queue: QueueState
) -> None:
    messages = [new_message(number) for number in range(1_500)]
    messages.append(new_message(0, lane="fast"))

    with pytest.raises(InvalidOption, match="fast"):
        broker.enqueue_many(messages)

    assert queue.count() == 0


@pytest.mark.parametrize("place", [{"queue": "no queue"}, {"actor": "lost"}])
def test_an_impossible_place_of_a_plain_message_sends_nothing(
    broker: StreamsBroker, queue: QueueState, place: dict[str, str]
) -> None:
    actor = dramatiq.actor(broker=broker, actor_name="lost")(print)
    actor.options["lane"] = "fast"  # too late to be refused with the actor
    messages = [new_message(number) for number in range(1_500)]
    messages += [new_message(0, actor="lost", lane="low"), new_message(0, **place)]

    with pytest.raises(InvalidOption, match=r"no queue|fast"):
        broker.enqueue_many(messages)

    assert queue.count() == 0


def test_connection_lost_in_between_tells_what_is_known(
    server: Server, make_broker: MakeBroker, queue: QueueState
) -> None:
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url)
        broker.enqueue(new_message(-1))
        proxy.drop_reply(rb'^XADD .*"args":\[1500\]')

        with pytest.raises(PartlyEnqueued, match="1000 messages were enqueued") as caught:
            broker.enqueue_many([new_message(number) for number in range(2_500)])
        broker.close()

    assert numbers(caught.value.enqueued) == list(range(1_000))
    assert numbers(caught.value.unconfirmed) == list(range(1_000, 2_000))
    assert numbers(caught.value.unsent) == list(range(2_000, 2_500))
    stored = numbers(queue.messages())
    assert set(range(1_000)) <= set(stored)
    assert set(stored).isdisjoint(range(2_000, 2_500))


def test_server_that_becomes_full_tells_what_was_refused(start_server: StartServer) -> None:
    own = start_server(config=["maxmemory 3mb", "maxmemory-policy noeviction"])
    broker = StreamsBroker(url=own.url)
    queue = QueueState(own.client(), "dramatiq-streams")

    with pytest.raises(PartlyEnqueued, match="out of memory") as caught:
        broker.enqueue_many([new_message(number, "x" * 1_000) for number in range(5_000)])

    stored = {message.message_id for message in queue.messages()}
    assert stored == {message.message_id for message in caught.value.enqueued}
    assert caught.value.unconfirmed == []
    assert len(stored) + len(caught.value.unsent) == 5_000
    broker.close()


def test_nothing_sent_is_said_to_be_unsent(make_broker: MakeBroker) -> None:
    broker = make_broker(url="redis://127.0.0.1:1", enqueue_timeout=0)

    with pytest.raises(Exception, match="refused") as caught:
        broker.enqueue_many([new_message(number) for number in range(3)])

    assert getattr(caught.value, "unconfirmed", []) == []


class Refusing(Middleware):
    """Refuses the message with this number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def before_enqueue(self, broker, message, delay) -> None:
        if message.args[0] == self.number:
            raise MiddlewareError("not this one")


def test_message_refused_in_a_later_chunk_tells_what_is_enqueued(
    broker: StreamsBroker, queue: QueueState
) -> None:
    broker.add_middleware(Refusing(1_200))

    with pytest.raises(PartlyEnqueued, match="not this one") as caught:
        broker.enqueue_many([new_message(number) for number in range(2_500)])

    assert numbers(caught.value.enqueued) == numbers(queue.messages()) == list(range(1_000))
    assert numbers(caught.value.unsent) == list(range(1_000, 2_500))
    assert isinstance(caught.value.__cause__, MiddlewareError)


def test_unencodable_message_in_a_later_chunk_tells_what_is_enqueued(
    broker: StreamsBroker, queue: QueueState
) -> None:
    messages = [new_message(number) for number in range(1_500)]
    messages[1_200] = new_message(1_200, object())

    with pytest.raises(PartlyEnqueued, match="not JSON serializable") as caught:
        broker.enqueue_many(messages)

    assert numbers(caught.value.enqueued) == numbers(queue.messages()) == list(range(1_000))
    assert isinstance(caught.value.__cause__, TypeError)
