"""A last delivery is counted by one thread while another one extends leases: it stays ours."""

from typing import Any

import pytest
from dramatiq.errors import ConnectionClosed

from dramatiq_streams.executor import Executor
from dramatiq_streams.keys import GROUP, RELEASED
from dramatiq_streams.leases import Leases
from dramatiq_streams.messages import Entry
from tests.faults.conftest import Stage
from tests.faults.scene import Scene, script
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server


@pytest.fixture
def scene(stage: Stage, server: Server, proxy: FaultyProxy) -> Scene:
    return stage(server, url=proxy.url, max_deliveries=2)


@pytest.fixture
def last(scene: Scene) -> Entry:
    """A message that one worker died with, now fetched by this process."""
    queues = scene.broker._process.queues
    scene.actors.note.send("last")
    queues.ensure_groups("default")
    scene.take_as("dead")
    (pending,) = scene.pending()
    lane = scene.keys.lanes[1]
    scene.client.xclaim(lane, GROUP, RELEASED, 0, [pending["message_id"]], retrycount=1)
    reading = queues.read("default", 1, shares=[1, 1, 1], acks=[], watch=False)
    (entry,) = reading.entries
    assert entry.is_last
    return entry


class Interrupted:
    """The connection of a scene, on which *meanwhile* is done right before each command."""

    def __init__(self, executor: Executor, meanwhile: Any) -> None:
        self._executor = executor
        self._meanwhile = meanwhile

    def execute(self, *command: Any, **options: Any) -> Any:
        self._meanwhile()
        return self._executor.execute(*command, **options)


def leases(scene: Scene, runs: Any) -> Leases:
    return Leases(runs, scene.broker._process._scope)


def test_last_delivery_that_begins_while_leases_are_extended_is_not_lost(
    scene: Scene, last: Entry
) -> None:
    process = scene.broker._process
    runs = Interrupted(process.executor, lambda: process.queues.begin("default", last))

    assert leases(scene, runs).extend("default", [last]) == []
    assert last.has_begun
    assert leases(scene, process.executor).extend("default", [last]) == []


def test_last_delivery_whose_answer_is_not_there_yet_is_not_lost_before(
    scene: Scene, last: Entry, proxy: FaultyProxy
) -> None:
    process = scene.broker._process
    proxy.drop_reply(script("begin"))
    with pytest.raises(ConnectionClosed):
        process.queues.begin("default", last)

    assert leases(scene, process.executor).extend("default", [last]) == []
    assert not process.queues.begin("default", last)


def test_last_delivery_that_waits_is_lost_like_any_other(scene: Scene, last: Entry) -> None:
    scene.client.xclaim(scene.keys.lanes[1], GROUP, "another", 0, [last.entry_id])

    assert leases(scene, scene.broker._process.executor).extend("default", [last]) == [last]


def test_last_delivery_that_has_begun_is_lost_like_any_other(scene: Scene, last: Entry) -> None:
    process = scene.broker._process
    assert process.queues.begin("default", last)
    scene.client.xclaim(scene.keys.lanes[1], GROUP, "another", 0, [last.entry_id])

    assert leases(scene, process.executor).extend("default", [last]) == [last]
