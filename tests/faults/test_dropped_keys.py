"""Keys that disappear while consumers wait for them, on every server that is promised."""

from collections.abc import Iterator

import dramatiq.worker
import pytest

from tests.faults.conftest import Stage
from tests.faults.scene import Scene
from tests.support.binaries import NAMES, ServerMissing, find_binary
from tests.support.servers import Server
from tests.support.waiting import wait_until

#: One thread prefetches less than `READS_BLOCKED`, two prefetch more.
THREADS = [1, 2]


@pytest.fixture(params=NAMES)
def scene(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A scene on a server of its own, of each version."""
    try:
        binary = find_binary(request.param)
    except ServerMissing as error:
        pytest.skip(str(error))
    with Server(binary) as server:
        scene = stage(server)
        yield scene
        scene.broker.close()


def _wait_for(scene: Scene, labels: set[str]) -> None:
    wait_until(lambda: labels <= set(scene.journal.counts()), message="they ran")
    scene.join()


@pytest.mark.parametrize("threads", THREADS)
def test_flushed_server_is_served_again(scene: Scene, threads: int) -> None:
    worker = scene.start_survivor(threads=threads, timeout=1_000)
    scene.wait_until_blocked()

    scene.client.flushall()
    labels = scene.send_notes(20)

    _wait_for(scene, labels)
    assert scene.journal.counts() == dict.fromkeys(labels, 1)
    worker.stop()


@pytest.mark.parametrize("lane", [0, 1, 2])
def test_deleted_lane_is_served_again(scene: Scene, lane: int) -> None:
    worker = scene.start_survivor(timeout=1_000)
    scene.wait_until_blocked()

    scene.client.delete(scene.keys.lanes[lane])
    label = scene.actors.note.send_with_options(
        args=("label",), lane=("high", "default", "low")[lane]
    )

    _wait_for(scene, {"label"})
    assert scene.journal.counts() == {"label": 1}
    assert label.options["lane"]
    worker.stop()


def test_deleted_wake_stream_is_served_again(scene: Scene) -> None:
    worker = scene.start_survivor(timeout=1_000)
    scene.wait_until_blocked()

    scene.client.delete(scene.keys.wake)
    scene.actors.note.send_with_options(args=("delayed",), delay=50)
    scene.actors.note.send("label")

    _wait_for(scene, {"delayed", "label"})
    worker.stop()


@pytest.mark.parametrize("threads", THREADS)
def test_purged_queue_is_served_again(scene: Scene, threads: int) -> None:
    worker = scene.start_survivor(threads=threads, timeout=1_000)
    scene.wait_until_blocked()

    scene.broker.flush("default")
    labels = scene.send_notes(20)

    _wait_for(scene, labels)
    assert scene.journal.counts() == dict.fromkeys(labels, 1)
    worker.stop()


def test_message_that_was_purged_while_it_ran_is_finished_in_peace(
    scene: Scene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dramatiq.worker, "QUEUE_PREFETCH", 3)
    worker = scene.start_survivor(threads=1, timeout=1_000)
    scene.actors.hold.send("purged")
    scene.wait_until_started("purged")
    scene.send_notes(1, "prefetched")
    scene.wait_until_pending(2)

    scene.broker.flush("default")
    wait_until(lambda: "was lost" in caplog.text, message="the loss was noticed")
    scene.journal.allow("go")
    labels = scene.send_notes(5)

    _wait_for(scene, labels)
    assert scene.journal.counts() == dict.fromkeys({"purged", *labels}, 1)
    worker.stop()
