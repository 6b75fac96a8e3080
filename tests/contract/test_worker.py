"""Sections 3 to 7 as dramatiq's own Worker sees them: signals, restarts, pauses, shutdown."""

import threading
import time
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Middleware

from dramatiq_streams import StreamsBroker
from dramatiq_streams.keys import RELEASED
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import QueueState, new_message
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

#: The hooks of a message's life. Those of booting threads come in no fixed order.
HOOKS = [
    f"{when}_{what}"
    for what in ("declare_actor", "declare_queue", "enqueue", "process_message", "ack", "nack")
    for when in ("before", "after")
]


class AllSignals(Middleware):
    """Notes the name of each signal that is emitted."""

    def __init__(self) -> None:
        self.seen: list[str] = []


def noting(name: str) -> Any:
    def note(self: AllSignals, *_: Any, **__: Any) -> None:
        self.seen.append(name)

    return note


for hook in HOOKS:
    setattr(AllSignals, hook, noting(hook))


def life_of_messages(broker: dramatiq.Broker, make_worker: MakeWorker) -> list[str]:
    """The signals of a worker that runs one good message and one that fails for good."""
    signals = AllSignals()
    broker.add_middleware(signals)

    @dramatiq.actor(max_retries=0)
    def work(fails: bool) -> None:
        if fails:
            raise ZeroDivisionError

    work.send(False)
    work.send(True)
    make_worker(broker, threads=1)
    wait_until(lambda: signals.seen[-1] == "after_nack")
    return signals.seen


def test_signals_come_in_the_order_that_the_stub_broker_gives_them(
    make_broker: MakeBroker, make_worker: MakeWorker
) -> None:
    stub = StubBroker()
    dramatiq.set_broker(stub)
    expected = life_of_messages(stub, make_worker)

    seen = life_of_messages(make_broker(), make_worker)

    assert seen == expected
    assert set(seen) == set(HOOKS)


def test_delayed_message_is_enqueued_once_and_never_delayed_by_the_worker(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    delayed: list[object] = []

    class Delays(Middleware):
        def before_delay_message(self, broker, message) -> None:
            delayed.append(message)

    signals = AllSignals()
    broker.add_middleware(signals)
    broker.add_middleware(Delays())
    runs: list[int] = []
    work = dramatiq.actor(actor_name="work")(runs.append)
    make_worker(broker)

    work.send_with_options(args=(1,), delay=50)
    broker.join("default", timeout=5_000)

    assert runs == [1]
    assert signals.seen.count("before_enqueue") == signals.seen.count("after_enqueue") == 1
    assert delayed == []


def test_join_of_the_worker_does_not_wait_for_delayed_messages(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    runs: list[int] = []
    work = dramatiq.actor(actor_name="work")(runs.append)
    worker = make_worker(broker)
    work.send_with_options(args=(1,), delay=1_500)

    worker.join()
    ran_before = list(runs)
    broker.join("default", timeout=5_000)

    assert ran_before == []
    assert runs == [1]


def test_worker_started_before_its_server_works_as_soon_as_it_is_there(
    server: Server, make_broker: MakeBroker, make_worker: MakeWorker, quick_restarts: None
) -> None:
    runs: list[int] = []
    with FaultyProxy(server) as proxy:
        proxy.refuse()
        broker = make_broker(url=proxy.url)
        work = dramatiq.actor(actor_name="work")(runs.append)
        worker = make_worker(broker)
        proxy.accept()

        work.send(1)
        broker.join("default", timeout=10_000)
        worker.stop()
        broker.close()

    assert runs == [1]


def test_connections_cut_again_and_again_lose_and_double_nothing(
    server: Server,
    make_broker: MakeBroker,
    make_worker: MakeWorker,
    quick_restarts: None,
    queue: QueueState,
) -> None:
    runs: list[int] = []
    direct = make_broker()
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url)
        dramatiq.actor(actor_name="work")(runs.append)
        worker = make_worker(broker, threads=4)
        direct.enqueue_many([new_message(number) for number in range(2_000)])
        for number in range(1, 6):
            wait_until(lambda number=number: len(runs) >= number * 300)  # type: ignore[misc]
            proxy.cut()
        direct.join("default", timeout=20_000)
        worker.stop()
        broker.close()

    assert sorted(runs) == list(range(2_000))
    assert queue.pending() == {}


def test_server_restarted_during_work_runs_each_message_once(
    own_server: Server, make_worker: MakeWorker, quick_restarts: None
) -> None:
    broker = StreamsBroker(url=own_server.url)
    dramatiq.set_broker(broker)
    runs: list[int] = []
    proceed = threading.Event()

    @dramatiq.actor
    def work(number: int) -> None:
        proceed.wait(20)
        runs.append(number)

    broker.enqueue_many([work.message(number) for number in range(8)])
    worker = make_worker(broker, threads=2, prefetch=5)
    wait_until(lambda: worker.workers[0].work_queue.qsize() == 3, message="five are prefetched")
    own_server.restart()
    proceed.set()
    wait_until(lambda: len(runs) >= 8, timeout=20)
    broker.join("default", timeout=10_000)

    worker.stop()
    broker.close()
    assert sorted(runs) == list(range(8))


def test_paused_worker_starts_nothing_and_resumes_where_it_was(
    any_broker: dramatiq.Broker, make_worker: MakeWorker, quick_restarts: None
) -> None:
    runs: list[int] = []
    work = dramatiq.actor(actor_name="work")(runs.append)
    worker = make_worker(any_broker, threads=2)
    work.send(0)
    wait_until(lambda: runs == [0])

    worker.pause()
    for number in range(1, 30):
        work.send(number)
    while_paused = list(runs)
    worker.resume()
    any_broker.join("default", timeout=10_000)

    assert while_paused == [0]
    assert sorted(runs) == list(range(30))


def test_stopped_worker_gives_back_what_it_did_not_start(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    started: list[int] = []
    proceed = threading.Event()

    @dramatiq.actor
    def work(number: int) -> None:
        started.append(number)
        proceed.wait(20)

    broker.enqueue_many([work.message(number) for number in range(20)])
    worker = make_worker(broker, threads=2, prefetch=5)
    wait_until(lambda: len(started) == 2 and len(queue.held()) == 5)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    wait_until(lambda: not any(thread.running for thread in worker.workers))

    proceed.set()
    stopping.join(10)

    assert len(started) == 2
    assert queue.held() == {}
    assert len(queue.messages()) == 18
    # Given back without a delivery counted.
    assert {delivery for delivery in queue.pending().values() if delivery.deliveries} == set()
    assert {delivery.consumer for delivery in queue.pending().values()} <= {RELEASED}


def test_worker_stops_in_order_with_the_server_gone(
    own_server: Server, make_worker: MakeWorker, quick_restarts: None
) -> None:
    broker = StreamsBroker(url=own_server.url)
    dramatiq.set_broker(broker)
    proceed = threading.Event()

    @dramatiq.actor
    def work() -> None:
        proceed.wait(20)

    broker.enqueue_many([work.message() for _ in range(6)])
    worker = make_worker(broker, threads=2, prefetch=5)
    wait_until(lambda: worker.workers[0].work_queue.qsize() == 3)
    own_server.kill()
    proceed.set()

    started = time.monotonic()
    worker.stop(timeout=10_000)
    broker.close()

    assert time.monotonic() - started < 9
    assert not any(thread.is_alive() for thread in worker.workers)
    assert not any(thread.is_alive() for thread in worker.consumers.values())


def test_worker_of_many_queues_consumes_each(
    any_broker: dramatiq.Broker, make_worker: MakeWorker
) -> None:
    runs: list[str] = []
    names = [f"queue-{number}" for number in range(8)]
    for name in names:
        dramatiq.actor(actor_name=name, queue_name=name)(runs.append)

    make_worker(any_broker)
    for name in names:
        any_broker.get_actor(name).send(name)
    for name in names:
        any_broker.join(name, timeout=5_000)

    assert sorted(runs) == names


@pytest.mark.parametrize("whitelist", [{"first"}, {"first.DQ"}])
def test_worker_of_some_queues_leaves_the_others_alone(
    broker: StreamsBroker, make_worker: MakeWorker, whitelist: set[str]
) -> None:
    for name in ("first", "second"):
        broker.declare_queue(name)

    worker = make_worker(broker, queues=whitelist)

    assert set(worker.consumers) <= {"first"}


def test_worker_goes_on_when_another_one_of_its_process_stops(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    runs: list[str] = []
    for name in ("first", "second"):
        dramatiq.actor(actor_name=name, queue_name=name)(runs.append)
    make_worker(broker, queues={"first"}, threads=4)
    other = make_worker(broker, queues={"second"}, threads=1)

    other.stop()
    broker.get_actor("first").send("after")

    broker.join("first", timeout=5_000)
    assert runs == ["after"]
