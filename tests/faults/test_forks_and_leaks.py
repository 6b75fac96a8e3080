"""Processes forked from one that uses its broker, and brokers that come and go."""

import gc
import multiprocessing
import threading

import dramatiq
import psutil

from dramatiq_streams import StreamsBroker
from tests.faults.scene import Scene
from tests.support.servers import Server
from tests.support.waiting import wait_until


def _send(scene: Scene, prefix: str) -> None:
    scene.send_notes(50, prefix)
    for number in range(50):
        scene.actors.note.send(f"{prefix}one{number}")


def _work(scene: Scene) -> None:
    worker = dramatiq.Worker(scene.broker, worker_threads=2, worker_timeout=50)
    worker.start()
    wait_until(lambda: scene.journal.is_allowed("stop"), timeout=30, message="told to stop")
    worker.stop()
    scene.broker.close()


def test_forks_of_a_process_at_work_send_and_run_messages_of_their_own(scene: Scene) -> None:
    # Threads of the parent are busy on its connections at the very moment of each fork.
    scene.start_survivor()
    fork = multiprocessing.get_context("fork")
    scene.send_notes(500, "parent")

    senders = [fork.Process(target=_send, args=(scene, f"fork{number}-")) for number in range(3)]
    workers = [fork.Process(target=_work, args=(scene,)) for _ in range(2)]
    for process in (*senders, *workers):
        process.start()
    for process in senders:
        process.join(20)
    scene.join(seconds=15)
    scene.send_notes(500, "late")
    scene.join(seconds=15)
    scene.journal.allow("stop")
    for process in workers:
        process.join(20)

    counts = scene.journal.counts()
    assert len(counts) == 500 + 3 * 100 + 500
    assert set(counts.values()) == {1}
    assert [process.exitcode for process in (*senders, *workers)] == [0] * 5
    assert {process.pid for process in workers} <= {note.pid for note in scene.journal.notes()}


def test_brokers_that_are_closed_leave_no_thread_and_no_descriptor(
    server: Server, namespace: str
) -> None:
    def use_and_close() -> None:
        broker = StreamsBroker(url=server.url, namespace=namespace, lease=1_000)
        broker.enqueue(dramatiq.Message("default", "note", ("label",), {}, {}))
        consumer = broker.consume("default", prefetch=2, timeout=10)
        message = next(consumer)
        assert message is not None
        consumer.ack(message)
        consumer.close()
        broker.close()

    process = psutil.Process()
    use_and_close()
    gc.collect()
    gc.disable()
    try:
        threads, descriptors = threading.active_count(), process.num_fds()
        for _ in range(50):
            use_and_close()

        assert threading.active_count() == threads
        assert process.num_fds() == descriptors
    finally:
        gc.enable()


def test_consumers_that_lose_their_connection_leave_no_descriptor(scene: Scene) -> None:
    scene.start_survivor()
    process = psutil.Process()
    scene.wait_until_blocked()
    descriptors = process.num_fds()

    for round_ in range(5):
        for connection in scene.client.client_list(_type="normal"):
            scene.client.client_kill_filter(_id=connection["id"], skipme=True)
        scene.actors.note.send(f"round{round_}")
        scene.join()
        scene.wait_until_blocked()

    assert process.num_fds() <= descriptors + 2
