"""Waiting for replicas: confirmed, not confirmed in time, many messages at once."""

import time
from collections.abc import Iterator

import pytest
from dramatiq.errors import BrokerConnectionError

from dramatiq_streams import NotReplicated, StreamsBroker
from tests.conftest import MakeBroker, StartServer
from tests.contract.queue_state import QueueState, new_message
from tests.integration.producer.conftest import Signals
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until


@pytest.fixture
def replica(own_server: Server, start_server: StartServer) -> Iterator[Server]:
    """A replica of `own_server` that has caught up."""
    replica = start_server(config=[f"replicaof 127.0.0.1 {own_server.port}"], tcp=True)
    master = own_server.client()
    wait_until(lambda: master.execute_command("WAIT", 1, 10) == 1, timeout=20)
    yield replica
    replica.resume()


@pytest.mark.parametrize("delay", [None, 60_000])
def test_message_is_on_a_replica_when_it_is_sent(
    make_broker: MakeBroker, own_server: Server, replica: Server, delay: int | None
) -> None:
    broker = make_broker(url=own_server.url, wait_replicas=1, wait_timeout=10_000)
    queue = QueueState(replica.client(), broker.namespace)

    for number in range(20):
        broker.enqueue(new_message(number), delay=delay)
        assert queue.count() == number + 1


@pytest.mark.parametrize("delay", [None, 60_000])
def test_message_that_no_replica_has_in_time_is_reported_and_stays(
    make_broker: MakeBroker,
    own_server: Server,
    replica: Server,
    signals: Signals,
    delay: int | None,
) -> None:
    # The replies may come later than any other's: the server waits, and not the connection.
    broker = make_broker(url=own_server.url, wait_replicas=1, wait_timeout=600, socket_timeout=0.3)
    broker.add_middleware(signals)
    replica.pause()
    message = new_message(1)

    started = time.monotonic()
    with pytest.raises(NotReplicated, match="confirmed by 0 replicas instead of 1") as caught:
        broker.enqueue(message, delay=delay)
    took = time.monotonic() - started

    assert [found.message_id for found in caught.value.enqueued] == [message.message_id]
    assert (caught.value.confirmed_by, caught.value.unsent) == (0, [])
    assert isinstance(caught.value, BrokerConnectionError)
    assert message.message_id in str(caught.value)
    assert 0.5 < took < 3
    assert QueueState(own_server.client(), broker.namespace).count() == 1
    assert signals.counts == {"before": 1, "after": 1}


def test_message_that_is_there_already_waits_for_no_replica(
    make_broker: MakeBroker, own_server: Server, replica: Server
) -> None:
    patient = make_broker(url=own_server.url, wait_replicas=1, wait_timeout=10_000)
    first = new_message(1, unique_for=60_000, idempotency_key="k")
    patient.enqueue(first)
    assert QueueState(replica.client(), patient.namespace).count() == 1
    replica.pause()
    own_server.client().set("{x}", "y")  # what this connection has not written is no concern
    broker = make_broker(url=own_server.url, wait_replicas=1, wait_timeout=300)

    again = broker.enqueue(new_message(1, unique_for=60_000, idempotency_key="k"))

    assert again.message_id == first.message_id


def test_many_messages_wait_once_per_round_trip(
    make_broker: MakeBroker, own_server: Server, replica: Server
) -> None:
    with FaultyProxy(own_server) as proxy:
        broker = make_broker(url=proxy.url, wait_replicas=1, wait_timeout=10_000)

        broker.enqueue_many([new_message(number) for number in range(2_500)])

        assert proxy.commands["WAIT"] == 3
        assert QueueState(replica.client(), broker.namespace).count() == 2_500
        broker.close()


def test_many_messages_stop_where_the_replicas_fail(
    make_broker: MakeBroker, own_server: Server, replica: Server
) -> None:
    broker = make_broker(url=own_server.url, wait_replicas=1, wait_timeout=100)
    replica.pause()

    with pytest.raises(NotReplicated, match="1000 messages were enqueued") as caught:
        broker.enqueue_many([new_message(number) for number in range(2_500)])

    assert [message.args[0] for message in caught.value.enqueued] == list(range(1_000))
    assert [message.args[0] for message in caught.value.unsent] == list(range(1_000, 2_500))
    assert QueueState(own_server.client(), broker.namespace).count() == 1_000


def test_more_replicas_than_there_are_fail_each_message(broker: StreamsBroker) -> None:
    own = StreamsBroker(
        client=broker.client, namespace=broker.namespace, wait_replicas=2, wait_timeout=10
    )

    with pytest.raises(NotReplicated, match="instead of 2"):
        own.enqueue(new_message(1))

    own.close()
