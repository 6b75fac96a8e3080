"""Heartbeats over a real connection that is cut: what the server is told, and what it knows."""

from collections.abc import Iterator

import pytest
import redis

from dramatiq_streams.condition import Condition
from dramatiq_streams.connections import Connections
from dramatiq_streams.executor import Executor
from dramatiq_streams.keys import queue_keys
from dramatiq_streams.lanes import DEFAULT_LANES, Lanes
from dramatiq_streams.lifetimes import Lifetimes
from dramatiq_streams.liveness import Liveness
from dramatiq_streams.options import BrokerOptions
from dramatiq_streams.scope import Scope
from dramatiq_streams.watch import Watch
from tests.conftest import MakeBroker
from tests.support.servers import Server
from tests.support.waiting import wait_until


@pytest.fixture
def caretaker(server: Server) -> Iterator[Executor]:
    made = Connections(url=server.url, client=None, parameters={}).dedicated()
    yield made
    made.close()


@pytest.fixture
def options(make_broker: MakeBroker) -> BrokerOptions:
    return make_broker().options


@pytest.fixture
def watch(caretaker: Executor, options: BrokerOptions, namespace: str) -> Watch:
    scope = Scope(namespace, Lanes.of(DEFAULT_LANES), "me")
    return Watch(
        Liveness(caretaker, scope),
        options,
        lifetimes=Lifetimes(),
        consumer="me",
        presence=caretaker.presence,
        readers=lambda queue_name: [],
        condition=lambda queue_name: Condition(),
        events=Connections(url=None, client=None, parameters={}).events,
    )


def _told(client: redis.Redis, namespace: str) -> set[int]:
    keys = queue_keys(namespace, "q", tuple(DEFAULT_LANES))
    words = client.hget(keys.connections, "me").split()
    return {int(word) for word in words if word.isdigit()}


def test_first_heartbeat_tells_the_connection_that_it_opens(
    watch: Watch, caretaker: Executor, redis_client: redis.Redis, namespace: str
) -> None:
    watch.tend("q")

    assert _told(redis_client, namespace) == {caretaker.presence.client_id}


def test_heartbeat_over_a_new_connection_tells_the_new_one(
    watch: Watch, caretaker: Executor, redis_client: redis.Redis, namespace: str
) -> None:
    watch.tend("q")
    before = _told(redis_client, namespace)
    caretaker.close()

    watch.tend("q")

    after = _told(redis_client, namespace)
    assert after == {caretaker.presence.client_id}
    assert after.isdisjoint(before)


def test_server_knows_a_connection_until_it_is_closed(
    watch: Watch, caretaker: Executor, server: Server, namespace: str
) -> None:
    watch.tend("q")
    number = caretaker.presence.client_id
    assert number is not None
    other = Connections(url=server.url, client=None, parameters={}).dedicated()
    liveness = Liveness(other, Scope(namespace, Lanes.of(DEFAULT_LANES), "other"))

    while_open = liveness.connected([number, 2**60])
    caretaker.close()

    assert while_open == {number}
    # The server reads of the close when it comes to it.
    wait_until(
        lambda: liveness.connected([number, 2**60]) == frozenset(),
        message="the server has seen the connection close",
    )
    other.close()


def test_consumer_that_leaves_is_forgotten(
    watch: Watch, redis_client: redis.Redis, namespace: str
) -> None:
    watch.tend("q")

    watch.leave("q")

    assert list(redis_client.scan_iter(match=f"{{{namespace}:q:0}}*")) == []
