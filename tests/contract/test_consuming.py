"""Section 3: `consume`, prefetch, `__next__`, what is delivered."""

import contextlib
import json
import threading
import time
from typing import Any

import pytest
import redis
from dramatiq.broker import MessageProxy
from dramatiq.errors import BrokerConnectionError, ConnectionClosed

from dramatiq_streams import InvalidOption, StreamsBroker
from tests.conftest import MakeBroker, MakeWorker, StartServer
from tests.contract.conftest import StartConsumer
from tests.contract.queue_state import QueueState, new_message
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

#: A blocked read may end this much after its time, on a busy machine.
LATE_MS = 1_000


def duration_ms(started: float) -> float:
    return (time.monotonic() - started) * 1000


def test_consumer_is_its_own_iterator_and_never_stops(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    consumer = start_consumer(broker, timeout=10)

    assert iter(consumer) is consumer
    assert [next(consumer) for _ in range(3)] == [None, None, None]


def test_delivered_is_a_proxy_of_the_queue_that_was_asked_for(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    stray = new_message(1, queue="elsewhere")
    queue.add_raw({"m": stray.encode()})

    delivered = next(start_consumer(broker))

    assert isinstance(delivered, MessageProxy)
    assert delivered.queue_name == "default"
    assert delivered.message_id == stray.message_id


@pytest.mark.parametrize("timeout", [30, 200, 700])
def test_next_on_an_idle_queue_waits_for_the_timeout_and_no_longer(
    broker: StreamsBroker, start_consumer: StartConsumer, timeout: int
) -> None:
    consumer = start_consumer(broker, timeout=timeout)
    next(consumer)

    started = time.monotonic()
    message = next(consumer)

    assert message is None
    assert timeout * 0.9 <= duration_ms(started) <= timeout + LATE_MS


@pytest.mark.parametrize("timeout", [30, 200, 700])
def test_next_at_the_prefetch_limit_waits_for_the_timeout_and_no_longer(
    broker: StreamsBroker, start_consumer: StartConsumer, timeout: int
) -> None:
    broker.enqueue_many([new_message(number) for number in range(3)])
    consumer = start_consumer(broker, prefetch=2, timeout=timeout)
    assert next(consumer)
    assert next(consumer)

    started = time.monotonic()
    message = next(consumer)

    assert message is None
    assert timeout * 0.9 <= duration_ms(started) <= timeout + LATE_MS


def test_waiting_at_the_prefetch_limit_costs_no_requests(
    start_server: StartServer, make_broker: MakeBroker, start_consumer: StartConsumer
) -> None:
    own = start_server()
    client = own.client()
    broker = make_broker(url=own.url)
    consumer = start_consumer(broker, prefetch=1, timeout=50)
    QueueState(client, broker.namespace).add_raw({"m": new_message(1).encode()})
    assert next(consumer)
    before = client.info("stats")["total_commands_processed"]

    for _ in range(5):
        assert next(consumer) is None
    commands = client.info("stats")["total_commands_processed"] - before
    consumer.close()
    broker.close()

    # The heartbeat and the recovery of leases, whose scripts count for several commands.
    assert commands < 60


def test_ack_at_the_prefetch_limit_ends_the_wait(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    broker.enqueue_many([new_message(1), new_message(2)])
    consumer = start_consumer(broker, prefetch=1, timeout=5_000)
    first = next(consumer)
    assert first is not None

    timer = threading.Timer(0.1, consumer.ack, [first])
    timer.start()
    started = time.monotonic()
    second = next(consumer)
    timer.join()

    assert second is not None
    assert second.args == (2,)
    assert duration_ms(started) < 2_000


def test_message_sent_while_next_waits_arrives_at_once(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    consumer = start_consumer(broker, timeout=5_000)

    timer = threading.Timer(0.1, broker.enqueue, [new_message(1)])
    timer.start()
    started = time.monotonic()
    message = next(consumer)
    timer.join()

    assert message is not None
    assert duration_ms(started) < 2_000


def test_message_sent_before_the_first_consumer_is_not_skipped(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    broker.enqueue(new_message(1))

    assert next(start_consumer(broker)) is not None


@pytest.mark.parametrize("prefetch", [1, 2, 5])
def test_no_more_than_prefetch_are_delivered_and_unsettled(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState, prefetch: int
) -> None:
    for lane in ("high", "default", "low"):
        broker.enqueue_many([new_message(number, lane=lane) for number in range(5)])
    consumer = start_consumer(broker, prefetch=prefetch, timeout=20)
    outstanding: list[MessageProxy] = []
    done = 0

    while done < 15:
        while message := next(consumer):
            outstanding.append(message)
            assert len(queue.held()) <= prefetch
        assert len(outstanding) == min(prefetch, 15 - done)
        consumer.ack(outstanding.pop(0))
        done += 1

    assert queue.count() == 0


@pytest.mark.parametrize("prefetch", [1, 2])
def test_prefetch_holds_when_every_lane_gets_a_message_at_once(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState, prefetch: int
) -> None:
    consumer = start_consumer(broker, prefetch=prefetch, timeout=3_000)
    received: list[MessageProxy | None] = []
    reader = threading.Thread(target=lambda: received.append(next(consumer)))
    reader.start()
    wait_until(lambda: is_blocked(queue.client), message="the consumer blocks")

    with queue.client.pipeline(transaction=True) as pipeline:
        for lane in ("low", "default", "high"):
            body = new_message(lane, lane=lane).encode()
            pipeline.xadd(queue.lane(lane), {"m": body})
        pipeline.execute()
    reader.join()

    assert received[0] is not None
    assert len(queue.held()) <= prefetch
    assert all(delivery.deliveries == 1 for delivery in queue.held().values())
    assert queue.count() == 3


def is_blocked(client: redis.Redis) -> bool:
    return any("b" in found["flags"] for found in client.client_list())


def test_what_another_consumer_may_not_prefetch_goes_to_a_third(
    make_broker: MakeBroker, start_consumer: StartConsumer
) -> None:
    first, second = make_broker(), make_broker()
    first.enqueue_many([new_message(1), new_message(2)])
    assert next(start_consumer(first, prefetch=1))

    other = next(start_consumer(second, prefetch=1))

    assert other is not None
    assert other.args == (2,)


@pytest.mark.parametrize("prefetch", [0, -1, 1.5, True, "3", None, 65_536])
def test_impossible_prefetch_is_refused(broker: StreamsBroker, prefetch: Any) -> None:
    with pytest.raises(InvalidOption, match="prefetch"):
        broker.consume("default", prefetch=prefetch)


@pytest.mark.parametrize("timeout", [0, -1, True, "3", None, float("nan")])
def test_impossible_timeout_is_refused(broker: StreamsBroker, timeout: Any) -> None:
    with pytest.raises(InvalidOption, match="timeout"):
        broker.consume("default", timeout=timeout)


@pytest.mark.parametrize("eta", [None, "soon", 1, 99_999_999_999_999, 1.5])
def test_no_eta_is_left_in_delivered_options(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState, eta: Any
) -> None:
    queue.add_raw({"m": new_message(1, eta=eta, colour="blue").encode()})

    delivered = next(start_consumer(broker))

    assert delivered is not None
    assert delivered.options == {"colour": "blue"}


def test_foreign_message_with_an_eta_is_run_by_the_worker_once(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    runs: list[int] = []
    broker_actor(broker, runs)
    queue.add_raw({"m": new_message(1, eta=99_999_999_999_999).encode()})

    make_worker(broker)

    wait_until(lambda: runs, message="the message ran")
    broker.join("default", timeout=5_000)
    assert runs == [1]


def broker_actor(broker: StreamsBroker, runs: list[int]) -> None:
    import dramatiq

    dramatiq.actor(actor_name="work", broker=broker)(runs.append)


def test_message_fields_beyond_m_do_not_matter(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    message = new_message(1)
    queue.add_raw({"x": b"\xff", "m": message.encode(), "m2": b"y"})

    delivered = next(start_consumer(broker))

    assert delivered is not None
    assert delivered.message_id == message.message_id


def test_closed_consumer_hands_out_nothing(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    consumer.close()

    with pytest.raises(ConnectionClosed):
        next(consumer)


def test_proxy_is_dramatiqs_own_in_every_respect(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    broker.enqueue(new_message(1, colour="blue"))
    delivered = next(start_consumer(broker))
    assert delivered is not None

    delivered.options["retries"] = 1
    delivered.stuff_exception(ZeroDivisionError())
    delivered.clear_exception()
    delivered.fail()

    assert delivered.failed
    assert delivered._exception is None
    assert delivered._message.options == {"colour": "blue", "retries": 1}
    assert delivered == MessageProxy(delivered._message)
    assert json.loads(json.dumps(delivered.asdict()))["options"]["retries"] == 1


def test_broker_keeps_no_reference_to_a_settled_message(
    broker: StreamsBroker, start_consumer: StartConsumer
) -> None:
    import gc
    import weakref

    class Heavy(Exception):
        """Can be watched."""

    consumer = start_consumer(broker)
    broker.enqueue(new_message(1))
    delivered = next(consumer)
    assert delivered is not None
    heavy = Heavy()
    watched = weakref.ref(heavy)
    delivered.stuff_exception(heavy)
    delivered.fail()
    consumer.nack(delivered)

    del delivered, heavy
    gc.collect()

    assert watched() is None


def test_prefetch_is_never_exceeded_on_the_server_not_even_for_a_round_trip(
    server: Server, make_broker: MakeBroker, queue: QueueState
) -> None:
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url)
        consumer = broker.consume("default", prefetch=1, timeout=50)
        assert next(consumer) is None
        for lane in ("low", "default", "high"):
            queue.add_raw({"m": new_message(lane, lane=lane).encode()}, lane=lane)
        proxy.drop_before(rb" released \[\[")

        with contextlib.suppress(BrokerConnectionError):
            next(consumer)
        held = len(queue.held())
        consumer.close()
        broker.close()

    assert held <= 1
