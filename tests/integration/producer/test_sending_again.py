"""Sending while the server cannot be reached: how long, how often, and what is said in the end."""

import asyncio
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from dramatiq.errors import BrokerConnectionError, ConnectionClosed, ConnectionFailed
from dramatiq.middleware.time_limit import TimeLimitExceeded
from dramatiq.threading import raise_thread_exception
from dramatiq.worker import ConsumerThread

from dramatiq_streams import (
    EnqueueUnconfirmed,
    NotEnqueued,
    PartlyEnqueued,
    StreamsBroker,
    StreamsError,
)
from dramatiq_streams.calls import script_hash
from tests.conftest import MakeBroker
from tests.contract.queue_state import QueueState, new_message
from tests.integration.producer.conftest import Signals
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000
DELAY_SCRIPT = b"^EVALSHA " + script_hash("delay").encode()


def in_thread(pool: ThreadPoolExecutor, broker: StreamsBroker, **options: Any) -> Future[Any]:
    """Enqueue in another thread, and return while it is trying again."""
    trying = threading.Event()
    producer = broker._process.producer
    reach = producer._reach

    def reach_noisily() -> None:
        if trying.is_set():
            tried_again.set()
        trying.set()
        reach()

    tried_again = threading.Event()
    producer._reach = reach_noisily
    future = pool.submit(broker.enqueue, new_message(1), **options)
    assert tried_again.wait(10)
    return future


@pytest.mark.parametrize("delay", [None, HOUR_MS])
def test_message_is_sent_when_the_server_comes_back(
    make_broker: MakeBroker,
    proxy: FaultyProxy,
    queue: QueueState,
    signals: Signals,
    delay: int | None,
) -> None:
    broker = make_broker(url=proxy.url, enqueue_timeout=30_000)
    broker.add_middleware(signals)
    proxy.refuse()

    with ThreadPoolExecutor(1) as pool:
        future = in_thread(pool, broker, delay=delay)
        assert not future.done()
        proxy.accept()
        sent = future.result(10)

    assert queue.count() == 1
    assert sent.args == (1,)
    assert signals.counts == {"before": 1, "after": 1}


def test_server_that_refuses_to_write_is_asked_again(own_server: Server) -> None:
    broker = StreamsBroker(url=own_server.url, enqueue_timeout=30_000)
    broker.enqueue(new_message(0))
    admin = own_server.client()
    admin.replicaof("127.0.0.1", "1")

    with ThreadPoolExecutor(1) as pool:
        future = in_thread(pool, broker)
        admin.replicaof("NO", "ONE")
        future.result(10)

    assert QueueState(admin, "dramatiq-streams").count() == 2
    broker.close()


def test_error_comes_in_time_and_has_the_message(
    make_broker: MakeBroker, proxy: FaultyProxy, signals: Signals
) -> None:
    broker = make_broker(url=proxy.url, enqueue_timeout=700)
    broker.add_middleware(signals)
    proxy.refuse()
    message = new_message("some text")

    started = time.monotonic()
    with pytest.raises(NotEnqueued, match=message.message_id) as caught:
        broker.enqueue(message)
    took = time.monotonic() - started

    assert 0.3 < took < 3
    assert "some text" in str(caught.value)
    assert "refused" in str(caught.value)
    assert caught.value.unsent == [message]
    assert isinstance(caught.value, ConnectionFailed)
    assert isinstance(caught.value, StreamsError)
    assert signals.counts == {"before": 1}


def test_first_attempt_counts_too_where_a_server_hangs(
    make_broker: MakeBroker, own_server: Server
) -> None:
    broker = make_broker(url=own_server.url, enqueue_timeout=1_000, socket_timeout=1.5)
    own_server.pause()

    started = time.monotonic()
    try:
        with pytest.raises(NotEnqueued):
            broker.enqueue(new_message())
        took = time.monotonic() - started
    finally:
        own_server.resume()

    assert took < 2.9  # two attempts: three seconds


def test_delayed_message_that_was_not_sent_keeps_its_instant(
    make_broker: MakeBroker, proxy: FaultyProxy, queue: QueueState
) -> None:
    broker = make_broker(url=proxy.url, enqueue_timeout=0)
    proxy.refuse()
    now = queue.now_ms()
    with pytest.raises(NotEnqueued) as caught:
        broker.enqueue(new_message(1), delay=HOUR_MS)
    proxy.accept()

    broker.enqueue(caught.value.unsent[0])

    [(eta, _)] = queue.delayed()
    assert abs(eta - now - HOUR_MS) < 1_000


def test_timeout_of_zero_is_one_attempt(make_broker: MakeBroker, proxy: FaultyProxy) -> None:
    broker = make_broker(url=proxy.url, enqueue_timeout=0)
    broker.enqueue(new_message(1))
    proxy.drop_before(rb"^XADD ")
    attempts = proxy.commands["XADD"]

    with pytest.raises(EnqueueUnconfirmed):
        broker.enqueue(new_message(2))

    assert proxy.commands["XADD"] - attempts == 1


def counted_attempts(broker: StreamsBroker) -> list[int]:
    """A list that grows with each attempt of *broker* to send."""
    attempts: list[int] = []
    producer = broker._process.producer
    reach = producer._reach

    def counting_reach() -> None:
        attempts.append(1)
        reach()

    producer._reach = counting_reach
    return attempts


def test_thread_of_an_event_loop_makes_one_attempt(
    make_broker: MakeBroker, proxy: FaultyProxy
) -> None:
    broker = make_broker(url=proxy.url, enqueue_timeout=60_000)
    proxy.refuse()
    attempts = counted_attempts(broker)

    async def send() -> None:
        broker.enqueue(new_message(1))

    with pytest.raises(NotEnqueued):
        asyncio.run(send())

    assert attempts == [1]


def test_thread_that_fetches_messages_makes_one_attempt(
    make_broker: MakeBroker, proxy: FaultyProxy
) -> None:
    broker = make_broker(url=proxy.url, enqueue_timeout=60_000)
    proxy.refuse()
    attempts = counted_attempts(broker)
    caught: list[BaseException] = []

    class Fetching(ConsumerThread):
        def __init__(self) -> None:
            threading.Thread.__init__(self)

        def run(self) -> None:
            try:
                broker.enqueue(new_message(1))
            except BrokerConnectionError as error:
                caught.append(error)

    thread = Fetching()
    thread.start()
    thread.join(10)

    assert [type(error) for error in caught] == [NotEnqueued]
    assert attempts == [1]


def test_time_limit_ends_the_attempts(broker: StreamsBroker) -> None:
    attempts: list[int] = []

    def reach() -> None:  # without a socket, which an interrupt would leave open
        attempts.append(1)
        raise ConnectionFailed("away")

    broker._producing = replace(broker._producing, enqueue_timeout_ms=60_000)
    broker._process.producer._reach = reach

    with ThreadPoolExecutor(1) as pool:
        ident = pool.submit(threading.get_ident).result()
        future = pool.submit(broker.enqueue, new_message(1))
        wait_until(lambda: len(attempts) > 1)
        started = time.monotonic()
        raise_thread_exception(ident, TimeLimitExceeded)
        error = future.exception(10)

    assert isinstance(error, TimeLimitExceeded)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("delay", [None, 0, 30_000])
def test_lost_reply_is_reported_with_the_message_and_not_sent_again(
    make_broker: MakeBroker, proxy: FaultyProxy, queue: QueueState, delay: int | None
) -> None:
    broker = make_broker(url=proxy.url)
    broker.enqueue(new_message(1), delay=delay)
    proxy.drop_reply(rb"^XADD " if delay is None else DELAY_SCRIPT)
    message = new_message(2)

    with pytest.raises(EnqueueUnconfirmed, match=message.message_id) as caught:
        broker.enqueue(message, delay=delay)

    assert [found.message_id for found in caught.value.unconfirmed] == [message.message_id]
    assert isinstance(caught.value, ConnectionClosed)
    assert queue.count() == 2


@pytest.mark.parametrize("fault", ["drop_reply", "drop_before"])
def test_message_with_a_long_delay_is_sent_again_and_is_there_once(
    make_broker: MakeBroker, proxy: FaultyProxy, queue: QueueState, signals: Signals, fault: str
) -> None:
    broker = make_broker(url=proxy.url)
    broker.enqueue(new_message(1), delay=HOUR_MS)
    broker.add_middleware(signals)
    now = queue.now_ms()
    getattr(proxy, fault)(DELAY_SCRIPT, times=2)

    broker.enqueue(new_message(2), delay=HOUR_MS)

    etas = [eta for eta, message in queue.delayed() if message.args == (2,)]
    assert len(etas) == 1
    assert abs(etas[0] - now - HOUR_MS) < 3_000
    assert proxy.counts[fault] == 2
    assert signals.counts == {"before": 1, "after": 1}


def test_lost_reply_is_not_forgotten_when_the_server_then_goes_away(
    make_broker: MakeBroker, proxy: FaultyProxy, queue: QueueState
) -> None:
    broker = make_broker(url=proxy.url, enqueue_timeout=500)
    broker.enqueue(new_message(1), delay=HOUR_MS)
    proxy.drop_reply(DELAY_SCRIPT, times=1)
    producer = broker._process.producer
    reach = producer._reach

    def reach_once() -> None:
        reach()
        producer._reach = unreachable

    def unreachable() -> None:
        raise ConnectionFailed("gone")

    producer._reach = reach_once

    with pytest.raises(EnqueueUnconfirmed, match="gone"):
        broker.enqueue(new_message(2), delay=HOUR_MS)

    assert len(queue.delayed()) == 2


@pytest.mark.parametrize("many", [False, True])
def test_instant_of_a_delayed_message_does_not_move_with_the_attempts(
    make_broker: MakeBroker, proxy: FaultyProxy, queue: QueueState, many: bool
) -> None:
    broker = make_broker(url=proxy.url, enqueue_timeout=30_000)
    proxy.refuse()
    now = queue.now_ms()

    with ThreadPoolExecutor(1) as pool:
        future: Future[Any]
        if many:
            future = pool.submit(broker.enqueue_many, [new_message(1)], delay=HOUR_MS)
        else:
            future = pool.submit(broker.enqueue, new_message(1), delay=HOUR_MS)
        wait_until(lambda: queue.now_ms() - now > 1_500)
        proxy.accept()
        future.result(10)

    [(eta, _)] = queue.delayed()
    assert abs(eta - now - HOUR_MS) < 1_000


def test_many_messages_are_sent_again_when_the_server_refuses_each_of_them(
    own_server: Server,
) -> None:
    broker = StreamsBroker(url=own_server.url, enqueue_timeout=30_000)
    broker.enqueue(new_message(0))
    attempts = counted_attempts(broker)
    admin = own_server.client()
    admin.replicaof("127.0.0.1", "1")

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(broker.enqueue_many, [new_message(1), new_message(2)])
        wait_until(lambda: len(attempts) > 1)
        admin.replicaof("NO", "ONE")
        future.result(10)

    assert QueueState(admin, "dramatiq-streams").count() == 3
    broker.close()


@pytest.mark.parametrize("delay", [None, HOUR_MS])
def test_many_messages_are_sent_when_the_server_comes_back(
    make_broker: MakeBroker, proxy: FaultyProxy, queue: QueueState, delay: int | None
) -> None:
    broker = make_broker(url=proxy.url, enqueue_timeout=30_000)
    attempts = counted_attempts(broker)
    proxy.refuse()

    with ThreadPoolExecutor(1) as pool:
        messages = [new_message(number) for number in range(1_500)]
        future = pool.submit(broker.enqueue_many, messages, delay=delay)
        wait_until(lambda: len(attempts) > 1)
        proxy.accept()
        sent = future.result(20)

    assert [message.args[0] for message in sent] == list(range(1_500))
    assert queue.count() == 1_500


def test_many_messages_that_cannot_be_sent_are_named_as_unsent(
    make_broker: MakeBroker, proxy: FaultyProxy
) -> None:
    broker = make_broker(url=proxy.url, enqueue_timeout=100)
    proxy.refuse()
    messages = [new_message(number) for number in range(1_500)]

    with pytest.raises(PartlyEnqueued, match="1500 not") as caught:
        broker.enqueue_many(messages)

    assert caught.value.unsent == messages
    assert caught.value.unconfirmed == []
    assert isinstance(caught.value.__cause__, NotEnqueued)
