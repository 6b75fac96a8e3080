"""The server does as it is told and its reply is lost, or the request is lost before that."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from dramatiq.errors import BrokerConnectionError, ConnectionClosed

from dramatiq_streams import PartlyEnqueued
from dramatiq_streams.consumer import StreamsConsumer
from dramatiq_streams.keys import RELEASED
from tests.faults.conftest import Stage
from tests.faults.scene import Scene, script
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

Lose = Callable[[bytes], None]

#: What is logged when a delivery was settled that belongs to somebody else.
LATE = "after its lease was lost"


@pytest.fixture
def scene(stage: Stage, server: Server, proxy: FaultyProxy) -> Scene:
    """A scene whose broker is behind the proxy; its lease is far longer than any test."""
    return stage(server, url=proxy.url, lease=60_000, enqueue_timeout=500)


@pytest.fixture(params=["reply", "request"])
def lose(request: pytest.FixtureRequest, proxy: FaultyProxy) -> Lose:
    """Loses the next request that matches, or its reply."""
    return proxy.drop_reply if request.param == "reply" else proxy.drop_before


def consume(scene: Scene, *, prefetch: int = 4, timeout: int = 200) -> StreamsConsumer:
    return scene.broker.consume("default", prefetch=prefetch, timeout=timeout)


def take(consumer: StreamsConsumer) -> Any:
    message = next(consumer)
    assert message is not None
    return message


def test_entries_of_a_lost_read_are_taken_up_without_being_counted_again(
    scene: Scene, lose: Lose
) -> None:
    scene.send_notes(2)
    consumer = consume(scene)
    lose(script("read"))

    with pytest.raises(ConnectionClosed):
        next(consumer)
    consumer.close()
    again = consume(scene)
    labels = [take(again).args[0], take(again).args[0]]

    assert labels == ["0", "1"]
    assert scene.deliveries() == [1, 1]
    assert next(again) is None
    again.close()


def test_entry_of_a_lost_blocking_read_is_taken_up_without_being_counted_again(
    scene: Scene, proxy: FaultyProxy
) -> None:
    consumer = consume(scene, timeout=5_000)
    proxy.drop_reply(rb"^XREADGROUP ")
    with ThreadPoolExecutor(1) as pool:
        blocked = pool.submit(next, consumer)
        scene.wait_until_blocked()

        scene.send_notes(1)
        error = blocked.exception(timeout=5)
    consumer.close()
    again = consume(scene)
    message = take(again)

    assert isinstance(error, ConnectionClosed)
    assert message.args == ("0",)
    assert scene.deliveries() == [1]
    again.close()


def test_lost_ack_is_sent_again_and_takes_effect_once(
    scene: Scene, lose: Lose, caplog: pytest.LogCaptureFixture
) -> None:
    scene.send_notes(1)
    consumer = consume(scene)
    message = take(consumer)
    lose(script("ack"))

    consumer.ack(message)
    assert next(consumer) is None

    assert scene.stored() == []
    assert scene.pending() == []
    assert LATE not in caplog.text
    consumer.close()


def test_acks_carried_by_a_lost_read_take_effect_once(
    scene: Scene, lose: Lose, caplog: pytest.LogCaptureFixture
) -> None:
    scene.send_notes(2)
    consumer = consume(scene, prefetch=1)
    message = take(consumer)
    with consumer._holdings.carrying():
        consumer.ack(message)
    lose(script("read"))

    with pytest.raises(ConnectionClosed):
        next(consumer)
    consumer.close()
    again = consume(scene, prefetch=1)
    other = take(again)

    assert other.args == ("1",)
    assert scene.deliveries() == [1]
    assert LATE not in caplog.text
    again.close()


def test_lost_nack_leaves_one_dead_letter(
    scene: Scene, lose: Lose, caplog: pytest.LogCaptureFixture
) -> None:
    scene.send_notes(1)
    consumer = consume(scene)
    message = take(consumer)
    lose(script("reject"))

    with pytest.raises(ConnectionClosed):
        consumer.nack(message)
    consumer.nack(message)

    assert scene.dead_reasons() == ["failed"]
    assert scene.stored() == []
    assert LATE not in caplog.text
    consumer.close()


@pytest.mark.parametrize("delay", [None, 0, 60_000])
def test_lost_hand_over_leaves_one_copy_of_the_retry(
    scene: Scene, lose: Lose, delay: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    scene.send_notes(1)
    consumer = consume(scene)
    message = take(consumer)
    message.options["retries"] = 1
    lose(script("hand_over"))

    with pytest.raises(ConnectionClosed):
        scene.broker.enqueue(message, delay=delay)
    consumer.ack(message)  # as the Worker does: the error of Retries is only logged
    consumer.ack(message)

    assert scene.stored() == [message.message_id]
    assert scene.pending() == []
    assert LATE not in caplog.text
    consumer.close()


def test_hand_over_that_is_lost_again_and_again_leaves_one_copy(
    scene: Scene, proxy: FaultyProxy
) -> None:
    scene.send_notes(1)
    consumer = consume(scene)
    message = take(consumer)
    message.options["retries"] = 1
    proxy.drop_before(script("hand_over"))
    proxy.drop_reply(script("hand_over"), times=2)

    with pytest.raises(ConnectionClosed):
        scene.broker.enqueue(message)
    for _ in range(2):
        with pytest.raises(ConnectionClosed):
            consumer.ack(message)
    consumer.ack(message)

    assert scene.stored() == [message.message_id]
    consumer.close()


@pytest.mark.parametrize("delay", [None, 50_000])
def test_lost_enqueue_is_reported_and_never_doubled(
    scene: Scene, lose: Lose, proxy: FaultyProxy, delay: int | None
) -> None:
    message = scene.actors.note.message("message")
    scene.send_notes(1)
    already = scene.stored()
    lose(rb"^XADD " if delay is None else script("delay"))

    with pytest.raises(ConnectionClosed):
        scene.broker.enqueue(message, delay=delay)

    is_done = proxy.counts["drop_reply"] == 1
    assert scene.stored() == [*already, *[message.message_id] * is_done]


@pytest.mark.parametrize("delay", [None, 60_000])
def test_lost_chunk_is_reported_as_unconfirmed_and_never_doubled(
    scene: Scene, lose: Lose, delay: int | None
) -> None:
    messages = [scene.actors.note.message(str(number)) for number in range(2_500)]
    ids = [message.message_id for message in messages]
    lose((rb"^XADD " if delay is None else script("delay")) + rb'.*"1500"')

    with pytest.raises(PartlyEnqueued) as caught:
        scene.broker.enqueue_many(messages, delay=delay)

    assert [m.message_id for m in caught.value.enqueued] == ids[:1000]
    assert [m.message_id for m in caught.value.unconfirmed] == ids[1000:2000]
    assert [m.message_id for m in caught.value.unsent] == ids[2000:]
    stored = scene.stored()
    assert len(stored) == len(set(stored))
    assert set(ids[:1000]) <= set(stored) <= set(ids[:2000])


def test_lost_release_gives_the_message_back_all_the_same(scene: Scene, lose: Lose) -> None:
    scene.send_notes(1)
    consumer = consume(scene)
    message = take(consumer)
    lose(script("release"))

    with pytest.raises(ConnectionClosed):
        consumer.requeue([message])
    consumer.close()
    again = consume(scene)
    same = take(again)

    assert same.message_id == message.message_id
    assert scene.deliveries() == [1]
    again.close()


def test_lost_extension_loses_no_lease(
    stage: Stage, server: Server, proxy: FaultyProxy, lose: Lose
) -> None:
    scene = stage(server, url=proxy.url, lease=1_500)
    scene.send_notes(1)
    consumer = consume(scene)
    message = take(consumer)
    lose(script("extend"))

    three_leases_later = time.monotonic() + 4.5
    wait_until(lambda: time.monotonic() > three_leases_later)

    (entry,) = scene.pending()
    assert proxy.counts["drop_reply"] + proxy.counts["drop_before"] == 1
    assert entry["consumer"] != RELEASED.encode()
    assert entry["times_delivered"] == 1
    assert not message.entry.is_lost
    consumer.close()


def test_lost_recovery_is_done_all_the_same(
    stage: Stage, server: Server, proxy: FaultyProxy, lose: Lose
) -> None:
    scene = stage(server, url=proxy.url)
    victim = scene.start_victim(url=server.url)
    scene.actors.hold.send("message")
    scene.wait_until_started("message")
    victim.kill()
    scene.journal.allow("go")
    lose(script("tend"))

    scene.start_survivor()

    scene.join()
    assert proxy.counts["drop_reply"] + proxy.counts["drop_before"] == 1
    assert scene.journal.counts() == {"message": 1}


def test_unreachable_server_refuses_and_later_serves(scene: Scene, proxy: FaultyProxy) -> None:
    scene.send_notes(1)
    consumer = consume(scene)
    message = take(consumer)
    proxy.refuse()

    with pytest.raises(BrokerConnectionError):
        scene.send_notes(1)
    consumer.ack(message)
    consumer.close()
    proxy.accept()
    again = consume(scene)
    assert next(again) is None

    assert scene.stored() == []
    again.close()
