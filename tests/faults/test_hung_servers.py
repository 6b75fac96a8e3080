"""A server, or the network before it, that says nothing more and closes no connection."""

import time

import dramatiq
import pytest
from dramatiq.errors import ConnectionClosed

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeBroker, MakeWorker
from tests.faults.actors import declare_actors
from tests.faults.conftest import StartVictims
from tests.faults.journal import Journal
from tests.faults.state import dead_reasons, pending
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

HUNG_SECONDS = 12.0


@pytest.fixture
def broker(make_broker: MakeBroker, proxy: FaultyProxy) -> StreamsBroker:
    """A broker behind the proxy that soon gives up on a reply."""
    return make_broker(url=proxy.url, socket_timeout=0.5)


def test_blocking_read_whose_connection_is_dead_ends(
    broker: StreamsBroker, proxy: FaultyProxy
) -> None:
    consumer = broker.consume("default", prefetch=1, timeout=100)
    assert next(consumer) is None
    proxy.delay_replies(30, pattern=rb"^XREADGROUP ", times=1)

    started = time.monotonic()
    with pytest.raises(ConnectionClosed):
        for _ in range(3):
            next(consumer)

    assert time.monotonic() - started < 3
    consumer.close()


def test_consumer_of_a_hung_server_ends_and_closes_in_bounded_time(
    broker: StreamsBroker, proxy: FaultyProxy
) -> None:
    broker.enqueue(dramatiq.Message("default", "note", ("message",), {}, {}))
    consumer = broker.consume("default", prefetch=2, timeout=100)
    delivered = next(consumer)
    assert delivered is not None
    proxy.delay_replies(30)

    started = time.monotonic()
    consumer.ack(delivered)
    with pytest.raises(ConnectionClosed):
        next(consumer)
    consumer.close()

    assert time.monotonic() - started < 5


@pytest.mark.slow
@pytest.mark.parametrize("lease", [2_000, 60_000])
def test_workers_go_on_after_their_server_was_hung(
    lease: int,
    own_server: Server,
    make_broker: MakeBroker,
    make_worker: MakeWorker,
    victims: StartVictims,
    journal: Journal,
    namespace: str,
) -> None:
    options = {"lease": lease, "socket_timeout": 1}
    broker = make_broker(url=own_server.url, **options)
    actors = declare_actors(broker, journal)
    client = own_server.client()
    victims(url=own_server.url, broker_options=options, threads=2)
    make_worker(broker)
    actors.hold.send("held")
    broker.enqueue_many([actors.note.message(f"before{number}") for number in range(3_000)])
    wait_until(lambda: len(journal.counts()) > 100, message="they run")

    own_server.pause()
    hung_until = time.monotonic() + HUNG_SECONDS
    with pytest.raises(ConnectionClosed):
        actors.note.send("during")
    wait_until(lambda: time.monotonic() > hung_until, timeout=HUNG_SECONDS)
    own_server.resume()
    journal.allow("go")
    actors.note.send("after")

    broker.join("default", timeout=20_000)
    runs = journal.counts()
    runs.pop("during", None)
    expected = {"held", "after", *(f"before{number}" for number in range(3_000))}
    assert set(runs) == expected
    assert pending(client, namespace) == []
    assert dead_reasons(client, namespace) == []
    if lease > HUNG_SECONDS * 1000:
        assert journal.counts("started") == {"held": 1}
