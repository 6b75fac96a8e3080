"""The server does as it is told and its reply is lost, or the request is lost before that."""

import threading
import time
from collections.abc import Callable

import dramatiq
import pytest
import redis
from dramatiq.errors import BrokerConnectionError, ConnectionClosed

from dramatiq_streams import PartlyEnqueued, StreamsBroker
from dramatiq_streams.consumer import StreamsConsumer
from dramatiq_streams.keys import RELEASED
from dramatiq_streams.messages import DeliveredMessage
from tests.conftest import MakeBroker
from tests.faults.state import (
    dead_reasons,
    deliveries,
    keys_of,
    pending,
    script,
    stored,
    wait_until_blocked,
)
from tests.support.proxy import FaultyProxy
from tests.support.waiting import wait_until

Lose = Callable[[bytes], None]

LATE = "after its lease was lost"


@pytest.fixture
def broker(make_broker: MakeBroker, proxy: FaultyProxy) -> StreamsBroker:
    """A broker behind the proxy; its lease is far longer than any test."""
    return make_broker(url=proxy.url)


@pytest.fixture(params=["reply", "request"])
def lose(request: pytest.FixtureRequest, proxy: FaultyProxy) -> Lose:
    """Loses the next request that matches, or its reply."""
    return proxy.drop_reply if request.param == "reply" else proxy.drop_before


@pytest.fixture
def is_done(request: pytest.FixtureRequest) -> bool:
    """Whether the server has done what was lost."""
    return bool(request.node.callspec.params["lose"] == "reply")


def message(label: str = "message") -> dramatiq.Message:
    return dramatiq.Message("default", "note", (label,), {}, {})


def take(consumer: StreamsConsumer) -> DeliveredMessage:
    delivered = next(consumer)
    assert isinstance(delivered, DeliveredMessage)
    return delivered


def consume(broker: StreamsBroker, *, timeout: int = 200) -> StreamsConsumer:
    return broker.consume("default", prefetch=4, timeout=timeout)


def test_entries_of_a_lost_read_are_taken_up_without_being_counted_again(
    broker: StreamsBroker, lose: Lose, redis_client: redis.Redis, namespace: str
) -> None:
    broker.enqueue_many([message("first"), message("second")])
    consumer = consume(broker)
    lose(script("read"))

    with pytest.raises(ConnectionClosed):
        next(consumer)
    consumer.close()
    again = consume(broker)
    labels = [take(again).args[0], take(again).args[0]]

    assert labels == ["first", "second"]
    assert deliveries(redis_client, namespace) == [1, 1]
    assert next(again) is None
    again.close()


def test_entry_of_a_lost_blocking_read_is_taken_up_without_being_counted_again(
    broker: StreamsBroker, proxy: FaultyProxy, redis_client: redis.Redis, namespace: str
) -> None:
    consumer = consume(broker, timeout=5_000)
    proxy.drop_reply(rb"^XREADGROUP ")
    errors: list[Exception] = []
    blocked = threading.Thread(target=_note_error, args=(consumer, errors))
    blocked.start()
    wait_until_blocked(redis_client)

    broker.enqueue(message())
    blocked.join(5)
    consumer.close()
    again = consume(broker)
    label = take(again).args[0]

    assert isinstance(errors[0], ConnectionClosed)
    assert label == "message"
    assert deliveries(redis_client, namespace) == [1]
    again.close()


def _note_error(consumer: StreamsConsumer, errors: list[Exception]) -> None:
    try:
        next(consumer)
    except ConnectionClosed as error:
        errors.append(error)


def test_lost_ack_is_sent_again_and_takes_effect_once(
    broker: StreamsBroker,
    lose: Lose,
    redis_client: redis.Redis,
    namespace: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.enqueue(message())
    consumer = consume(broker)
    delivered = take(consumer)
    lose(script("ack"))

    consumer.ack(delivered)
    assert next(consumer) is None

    assert stored(redis_client, namespace) == 0
    assert pending(redis_client, namespace) == []
    assert LATE not in caplog.text
    consumer.close()


def test_acks_carried_by_a_lost_read_take_effect_once(
    broker: StreamsBroker,
    lose: Lose,
    redis_client: redis.Redis,
    namespace: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.enqueue_many([message("first"), message("second")])
    consumer = broker.consume("default", prefetch=1, timeout=200)
    delivered = take(consumer)
    with consumer._holdings.carrying():
        consumer.ack(delivered)
    lose(script("read"))

    with pytest.raises(ConnectionClosed):
        next(consumer)
    consumer.close()
    again = broker.consume("default", prefetch=1, timeout=200)
    label = take(again).args[0]

    assert label == "second"
    assert deliveries(redis_client, namespace) == [1]
    assert LATE not in caplog.text
    again.close()


def test_lost_nack_leaves_one_dead_letter(
    broker: StreamsBroker,
    lose: Lose,
    redis_client: redis.Redis,
    namespace: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.enqueue(message())
    consumer = consume(broker)
    delivered = take(consumer)
    lose(script("reject"))

    with pytest.raises(ConnectionClosed):
        consumer.nack(delivered)
    consumer.nack(delivered)

    assert dead_reasons(redis_client, namespace) == ["failed"]
    assert stored(redis_client, namespace) == 0
    assert LATE not in caplog.text
    consumer.close()


@pytest.mark.parametrize("delay", [None, 0, 60_000])
def test_lost_hand_over_leaves_one_copy_of_the_retry(
    delay: int | None,
    broker: StreamsBroker,
    lose: Lose,
    redis_client: redis.Redis,
    namespace: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.enqueue(message())
    consumer = consume(broker)
    delivered = take(consumer)
    delivered.options["retries"] = 1
    lose(script("hand_over"))

    with pytest.raises(ConnectionClosed):
        broker.enqueue(delivered, delay=delay)
    consumer.ack(delivered)  # as the Worker does; Retries' error was only logged
    consumer.ack(delivered)

    assert stored(redis_client, namespace) == 1
    assert pending(redis_client, namespace) == []
    assert LATE not in caplog.text
    consumer.close()


def test_lost_hand_over_and_lost_repetition_leave_one_copy(
    broker: StreamsBroker, proxy: FaultyProxy, redis_client: redis.Redis, namespace: str
) -> None:
    broker.enqueue(message())
    consumer = consume(broker)
    delivered = take(consumer)
    delivered.options["retries"] = 1
    proxy.drop_before(script("hand_over"))
    proxy.drop_reply(script("hand_over"), times=2)

    with pytest.raises(ConnectionClosed):
        broker.enqueue(delivered)
    for _ in range(2):
        with pytest.raises(ConnectionClosed):
            consumer.ack(delivered)
    consumer.ack(delivered)

    assert stored(redis_client, namespace) == 1
    consumer.close()


@pytest.mark.parametrize("delay", [None, 60_000])
def test_lost_enqueue_is_reported_and_never_doubled(
    delay: int | None,
    broker: StreamsBroker,
    lose: Lose,
    is_done: bool,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    broker.enqueue(message("before"), delay=delay)
    lose(rb"^XADD " if delay is None else script("delay"))

    with pytest.raises(ConnectionClosed):
        broker.enqueue(message(), delay=delay)

    assert stored(redis_client, namespace) == (2 if is_done else 1)


@pytest.mark.parametrize("delay", [None, 60_000])
def test_lost_chunk_is_reported_as_unconfirmed_and_never_doubled(
    delay: int | None,
    broker: StreamsBroker,
    lose: Lose,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    messages = [message(f"{number:04}") for number in range(2_500)]
    word = rb"^XADD .*" if delay is None else script("delay") + b".*"
    lose(word + b'"1500"')

    with pytest.raises(PartlyEnqueued) as caught:
        broker.enqueue_many(messages, delay=delay)

    parts = [caught.value.enqueued, caught.value.unconfirmed, caught.value.unsent]
    assert [[part[0].args[0], part[-1].args[0]] for part in parts] == [
        ["0000", "0999"],
        ["1000", "1999"],
        ["2000", "2499"],
    ]
    ids = _stored_ids(redis_client, namespace)
    assert len(ids) == len(set(ids))
    assert {m.message_id for m in caught.value.enqueued} <= set(ids)
    assert not {m.message_id for m in caught.value.unsent} & set(ids)


def test_lost_release_gives_the_message_back_all_the_same(
    broker: StreamsBroker,
    lose: Lose,
    make_broker: MakeBroker,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    broker.enqueue(message())
    consumer = consume(broker)
    delivered = take(consumer)
    lose(script("release"))

    with pytest.raises(ConnectionClosed):
        consumer.requeue([delivered])
    consumer.close()
    again = consume(broker)
    label = take(again).args[0]

    assert label == "message"
    assert deliveries(redis_client, namespace) == [1]
    again.close()


def test_lost_extension_loses_no_lease(
    make_broker: MakeBroker,
    proxy: FaultyProxy,
    lose: Lose,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    broker = make_broker(url=proxy.url, lease=1_500)
    broker.enqueue(message())
    consumer = consume(broker)
    delivered = take(consumer)
    lose(script("extend"))

    three_leases_later = time.monotonic() + 4.5
    wait_until(lambda: time.monotonic() > three_leases_later)

    (entry,) = pending(redis_client, namespace)
    assert proxy.counts["drop_reply"] + proxy.counts["drop_before"] == 1
    assert entry["consumer"] != RELEASED.encode()
    assert entry["times_delivered"] == 1
    assert not delivered.entry.is_lost
    consumer.close()


def test_unreachable_server_refuses_and_later_serves(
    broker: StreamsBroker, proxy: FaultyProxy, redis_client: redis.Redis, namespace: str
) -> None:
    broker.enqueue(message())
    consumer = consume(broker)
    delivered = take(consumer)
    proxy.refuse()

    with pytest.raises(BrokerConnectionError):
        broker.enqueue(message())
    consumer.ack(delivered)
    consumer.close()
    proxy.accept()
    again = consume(broker)
    assert next(again) is None

    assert stored(redis_client, namespace) == 0
    again.close()


def _stored_ids(client: redis.Redis, namespace: str) -> list[str]:
    keys = keys_of(namespace)
    bodies = [fields[b"m"] for lane in keys.lanes for _, fields in client.xrange(lane)]
    bodies += [packed.partition(b":")[2] for packed in client.hvals(keys.delayed_messages)]
    return [dramatiq.Message.decode(body).message_id for body in bodies]
