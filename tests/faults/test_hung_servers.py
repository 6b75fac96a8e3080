"""A server, or the network before it, that says nothing more and closes no connection."""

import time

import pytest
from dramatiq.errors import ConnectionClosed

from tests.faults.conftest import Stage
from tests.faults.scene import READS_BLOCKED, Scene
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

HUNG_SECONDS = 12.0


@pytest.fixture
def scene(stage: Stage, server: Server, proxy: FaultyProxy) -> Scene:
    """A scene whose broker, behind the proxy, soon gives up on a reply."""
    return stage(server, url=proxy.url, socket_timeout=0.5)


@pytest.mark.parametrize("prefetch", [1, READS_BLOCKED])
def test_blocking_read_whose_connection_is_dead_ends(
    scene: Scene, proxy: FaultyProxy, prefetch: int
) -> None:
    consumer = scene.broker.consume("default", prefetch=prefetch, timeout=100)
    assert next(consumer) is None
    proxy.delay_replies(30, pattern=rb"^XREAD", times=1)

    started = time.monotonic()
    with pytest.raises(ConnectionClosed):
        next(consumer)

    assert time.monotonic() - started < 3
    consumer.close()


def test_consumer_of_a_hung_server_closes_in_bounded_time(scene: Scene, proxy: FaultyProxy) -> None:
    scene.send_notes(1)
    consumer = scene.broker.consume("default", prefetch=2, timeout=100)
    message = next(consumer)
    assert message is not None
    proxy.delay_replies(30)

    started = time.monotonic()
    consumer.ack(message)
    with pytest.raises(ConnectionClosed):
        next(consumer)
    consumer.close()

    assert time.monotonic() - started < 5


@pytest.mark.slow
@pytest.mark.parametrize("lease", [2_000, 60_000])
def test_workers_go_on_after_their_server_was_hung(
    stage: Stage, own_server: Server, lease: int
) -> None:
    scene = stage(own_server, lease=lease, socket_timeout=1)
    scene.start_victim(threads=2)
    scene.start_survivor()
    scene.actors.hold.send("held")
    before = scene.send_notes(3_000)
    wait_until(lambda: len(scene.journal.counts()) > 100, message="they run")

    own_server.pause()
    hung_until = time.monotonic() + HUNG_SECONDS
    with pytest.raises(ConnectionClosed):
        scene.actors.note.send("during")
    wait_until(lambda: time.monotonic() > hung_until, timeout=HUNG_SECONDS)
    own_server.resume()
    scene.journal.allow("go")
    scene.actors.note.send("after")

    scene.join(seconds=20)
    assert set(scene.journal.counts()) - {"during"} == {"held", "after", *before}
    assert scene.pending() == []
    assert scene.dead_reasons() == []
    if lease > HUNG_SECONDS * 1000:
        assert scene.journal.counts("started") == {"held": 1}
