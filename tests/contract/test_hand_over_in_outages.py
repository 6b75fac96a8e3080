"""Sections 2 and 5: a retry replaces its original though the server is away, or out of memory."""

from collections.abc import Callable
from functools import partial

import dramatiq
import pytest
from dramatiq.errors import ConnectionClosed, ConnectionFailed
from dramatiq.middleware import CurrentMessage

from dramatiq_streams import ServerOutOfMemory, StreamsBroker
from tests.conftest import MakeBroker, MakeWorker, StartServer
from tests.contract.conftest import StartConsumer
from tests.contract.queue_state import QueueState, new_message
from tests.contract.retrying import deliver
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until


def send_failing(broker: StreamsBroker, fault: Callable[[], None]) -> list[int]:
    """Send a message that fails once, after *fault*; returns the list that notes its attempts."""
    attempts: list[int] = []

    def work() -> None:
        attempts.append(len(attempts))
        if len(attempts) == 1:
            fault()
            raise ZeroDivisionError

    dramatiq.actor(broker=broker, max_retries=1, min_backoff=1, max_backoff=2)(work).send()
    return attempts


@pytest.mark.parametrize("lost", ["drop_before", "drop_reply"])
@pytest.mark.parametrize("delay", [None, 60_000])
def test_connection_lost_during_the_hand_over_neither_loses_nor_doubles(
    server: Server,
    make_broker: MakeBroker,
    queue: QueueState,
    lost: str,
    delay: int | None,
) -> None:
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url)
        broker.enqueue(new_message(1))
        consumer = broker.consume("default", prefetch=1, timeout=100)
        message = deliver(consumer)
        getattr(proxy, lost)(rb"retries")

        with pytest.raises(ConnectionClosed):
            broker.enqueue(message, delay=delay)  # type: ignore[arg-type]
        consumer.ack(message)
        consumer.ack(message)
        consumer.close()
        broker.close()

    assert queue.count() == 1
    [stored] = queue.messages() or [found for _, found in queue.delayed()]
    assert stored.options == {"retries": 1}
    assert queue.pending() == {}


def test_ack_goes_on_failing_until_the_retry_is_there(
    server: Server, make_broker: MakeBroker, queue: QueueState
) -> None:
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url)
        broker.enqueue(new_message(1))
        consumer = broker.consume("default", prefetch=1, timeout=100)
        message = deliver(consumer)
        proxy.refuse()

        with pytest.raises(ConnectionFailed):
            broker.enqueue(message)  # type: ignore[arg-type]
        for _ in range(3):
            with pytest.raises(ConnectionFailed):
                consumer.ack(message)
        assert [m.options for m in queue.messages()] == [{}]
        proxy.accept()
        consumer.ack(message)
        consumer.close()
        broker.close()

    assert [m.options for m in queue.messages()] == [{"retries": 1}]


def test_worker_repeats_a_hand_over_until_the_server_is_back(
    server: Server,
    make_broker: MakeBroker,
    make_worker: MakeWorker,
    quick_restarts: None,
) -> None:
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url)
        attempts = send_failing(broker, proxy.refuse)
        worker = make_worker(broker)
        wait_until(lambda: attempts, message="the first attempt failed")
        proxy.accept()

        wait_until(lambda: len(attempts) == 2, message="the retry ran")
        broker.join("default", timeout=10_000)
        worker.stop()
        broker.close()

    assert attempts == [0, 1]


@pytest.mark.parametrize("lost", ["drop_before", "drop_reply"])
def test_worker_makes_no_noise_about_a_retry_that_has_to_wait_for_the_server(
    server: Server,
    make_broker: MakeBroker,
    make_worker: MakeWorker,
    caplog: pytest.LogCaptureFixture,
    lost: str,
) -> None:
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url)
        attempts = send_failing(broker, partial(getattr(proxy, lost), rb"retries"))
        worker = make_worker(broker)
        wait_until(lambda: len(attempts) == 2, message="the retry ran")
        broker.join("default", timeout=10_000)
        worker.stop()
        broker.close()

    assert proxy.counts[lost] == 1
    assert attempts == [0, 1]
    assert [record.msg for record in caplog.records if record.levelname == "CRITICAL"] == []


def test_actor_that_retries_its_own_message_is_told_that_the_server_is_away(
    server: Server, make_broker: MakeBroker, make_worker: MakeWorker, quick_restarts: None
) -> None:
    told: list[Exception] = []
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url)
        broker.add_middleware(CurrentMessage())

        @dramatiq.actor
        def work() -> None:
            message = CurrentMessage.get_current_message()
            assert message is not None
            if message.options.get("retries"):
                return
            message.options["retries"] = 1
            proxy.refuse()
            try:
                broker.enqueue(message)
            except ConnectionFailed as error:
                told.append(error)

        work.send()
        worker = make_worker(broker)
        wait_until(lambda: told, message="the server was away")
        proxy.accept()
        broker.join("default", timeout=10_000)
        worker.stop()
        broker.close()

    assert len(told) == 1


def test_server_that_is_out_of_memory_takes_a_retry_in_place_of_its_original(
    start_server: StartServer, make_broker: MakeBroker, start_consumer: StartConsumer
) -> None:
    own = start_server()
    broker = make_broker(url=own.url)
    queue = QueueState(own.client(), broker.namespace)
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker, prefetch=1, timeout=100)
    message = deliver(consumer)
    queue.client.config_set("maxmemory", "1")

    broker.enqueue(message)  # type: ignore[arg-type]
    consumer.ack(message)

    assert [m.options for m in queue.messages()] == [{"retries": 1}]
    assert not queue.held()
    with pytest.raises(ServerOutOfMemory):
        broker.enqueue(new_message(2))
    queue.client.config_set("maxmemory", "0")
