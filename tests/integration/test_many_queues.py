"""Queues that the same threads run: none keeps what it cannot start, and none starves."""

import threading
import time
from collections import Counter
from functools import partial
from typing import Any

import dramatiq
import pytest

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeBroker, MakeWorker
from tests.support.waiting import wait_until

LONG, OTHER = "long", "other"
THREADS = 3

#: Longer than what keeps a thread from other queues.
TASK_SECONDS = 0.12


class Site:
    """A broker with an actor on each of two queues, and what they ran."""

    def __init__(self, broker: StreamsBroker, proceed: threading.Event) -> None:
        self.broker = broker
        self.runs: list[str] = []
        self._proceed = proceed
        dramatiq.actor(broker=broker, queue_name=LONG, actor_name=LONG)(self.run_long)
        dramatiq.actor(broker=broker, queue_name=OTHER, actor_name=OTHER)(self.run_other)

    def run_long(self) -> None:
        self.runs.append(LONG)
        assert self._proceed.wait(30)

    def run_other(self) -> None:
        self.runs.append(OTHER)

    def send(self, name: str, count: int = 1) -> None:
        actor = self.broker.get_actor(name)
        self.broker.enqueue_many([actor.message() for _ in range(count)])


def occupy(site: Site, make_worker: MakeWorker) -> None:
    """Let a worker of *site* be at work on long tasks only."""
    make_worker(site.broker, threads=THREADS)
    site.send(LONG, THREADS)
    wait_until(lambda: site.runs == [LONG] * THREADS)


@pytest.fixture
def proceed() -> threading.Event:
    """Lets long tasks end."""
    return threading.Event()


@pytest.fixture
def sites(make_broker: MakeBroker, proceed: threading.Event) -> Any:
    return Site(make_broker(), proceed), Site(make_broker(), proceed)


def test_what_comes_to_another_queue_is_left_to_idle_workers(
    sites: tuple[Site, Site], make_worker: MakeWorker, proceed: threading.Event
) -> None:
    busy, idle = sites
    occupy(busy, make_worker)
    make_worker(idle.broker, threads=THREADS)

    def are_run(count: int) -> bool:
        return len(idle.runs) == count

    for count in range(1, 20):
        busy.send(OTHER)
        wait_until(partial(are_run, count), timeout=10)

    assert busy.runs == [LONG] * THREADS
    proceed.set()
    busy.broker.join(LONG, timeout=10_000)


def test_what_was_fetched_of_another_queue_is_given_to_idle_workers(
    sites: tuple[Site, Site], make_worker: MakeWorker, proceed: threading.Event
) -> None:
    busy, idle = sites
    busy.send(LONG, THREADS)
    make_worker(busy.broker, threads=THREADS)
    wait_until(lambda: busy.runs == [LONG] * THREADS)
    busy.send(OTHER, 3 * THREADS)
    make_worker(idle.broker, threads=THREADS)

    wait_until(lambda: len(idle.runs) == 3 * THREADS, timeout=10)

    proceed.set()
    busy.broker.join(LONG, timeout=10_000)
    busy.broker.join(OTHER, timeout=10_000)
    assert busy.runs == [LONG] * THREADS


def test_thread_that_comes_free_goes_on_with_another_queue(
    sites: tuple[Site, Site], make_worker: MakeWorker, proceed: threading.Event
) -> None:
    busy, _ = sites
    occupy(busy, make_worker)
    busy.send(OTHER, 5)

    proceed.set()

    busy.broker.join(OTHER, timeout=10_000)
    assert busy.runs.count(OTHER) == 5


def test_long_tasks_of_one_queue_do_not_starve_another(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    runs: list[str] = []

    def declare(name: str) -> dramatiq.Actor[..., Any]:
        def work() -> None:
            runs.append(name)
            time.sleep(TASK_SECONDS)

        return dramatiq.actor(broker=broker, queue_name=name, actor_name=name)(work)

    names = ["a", "b", "c"]
    for name in names:
        actor = declare(name)
        broker.enqueue_many([actor.message() for _ in range(40)])
    worker = make_worker(broker, threads=1)
    wait_until(lambda: len(runs) >= 36)
    worker.stop()

    # Twelve each, if chance were just.
    assert min(Counter(runs[:36])[name] for name in names) >= 3
