"""Dramatiq's Retries, TimeLimit, AgeLimit and ShutdownNotifications over the broker."""

import threading
import time
from typing import Any

import dramatiq
import pytest
from dramatiq.message import Message
from dramatiq.middleware import TimeLimit
from dramatiq.middleware.shutdown import Shutdown
from dramatiq.middleware.time_limit import TimeLimitExceeded

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import QueueState
from tests.support.waiting import wait_until


def test_actor_is_retried_until_it_succeeds(broker: StreamsBroker, make_worker: MakeWorker) -> None:
    attempts: list[int] = []

    @dramatiq.actor(max_retries=5, min_backoff=1, max_backoff=5)
    def work(number: int) -> None:
        attempts.append(number)
        if len(attempts) < 4:
            raise ZeroDivisionError

    work.send(7)
    make_worker(broker)
    broker.join("default", timeout=10_000)

    assert attempts == [7, 7, 7, 7]


def test_expected_error_is_not_retried(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    attempts: list[int] = []

    @dramatiq.actor(throws=ZeroDivisionError)
    def work() -> None:
        attempts.append(1)
        raise ZeroDivisionError("expected")

    work.send()
    make_worker(broker)
    broker.join("default", timeout=5_000)

    assert attempts == [1]
    assert queue.dead()[0]["error"] == b"ZeroDivisionError: expected"


def test_retry_when_decides(broker: StreamsBroker, make_worker: MakeWorker) -> None:
    asked: list[int] = []

    def again(retries: int, error: Exception) -> bool:
        asked.append(retries)
        return retries < 2 and isinstance(error, ZeroDivisionError)

    @dramatiq.actor(retry_when=again, min_backoff=1, max_backoff=2)
    def work() -> None:
        raise ZeroDivisionError

    work.send()
    make_worker(broker)
    broker.join("default", timeout=5_000)

    assert asked == [0, 1, 2]


def test_exhausted_retries_are_told_to_another_actor(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    told: list[tuple[dict[str, Any], dict[str, Any]]] = []

    @dramatiq.actor(max_retries=1, min_backoff=1, on_retry_exhausted="tell")
    def work(number: int) -> None:
        raise ZeroDivisionError

    @dramatiq.actor
    def tell(message: dict[str, Any], retries: dict[str, Any]) -> None:
        told.append((message, retries))

    sent = work.send(3)
    make_worker(broker)
    broker.join("default", timeout=5_000)

    [(message, retries)] = told
    assert message["message_id"] == sent.message_id
    assert message["args"] == [3]
    assert retries == {"retries": 1, "max_retries": 1}
    assert len(queue.dead()) == 1


def test_actor_asks_for_a_retry_with_a_delay(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    starts: list[float] = []

    @dramatiq.actor
    def work() -> None:
        starts.append(time.monotonic())
        if len(starts) == 1:
            raise dramatiq.errors.Retry("not yet", delay=300)

    work.send()
    make_worker(broker)
    broker.join("default", timeout=5_000)

    # By itself dramatiq waits for seven seconds or more.
    assert 0.29 <= starts[1] - starts[0] < 5


def test_time_limit_interrupts_and_the_message_is_retried(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    broker.middleware[:] = [m for m in broker.middleware if not isinstance(m, TimeLimit)]
    broker.add_middleware(TimeLimit(interval=20))
    broker.emit_after("process_boot")
    outcomes: list[str] = []

    @dramatiq.actor(time_limit=100, max_retries=1, min_backoff=1)
    def work() -> None:
        try:
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                threading.Event().wait(0.001)
        except TimeLimitExceeded:
            outcomes.append("interrupted")
            raise

    work.send()
    make_worker(broker)
    broker.join("default", timeout=10_000)

    assert outcomes == ["interrupted", "interrupted"]
    [letter] = queue.dead()
    assert letter["error"].startswith(b"TimeLimitExceeded")


def test_message_that_is_too_old_is_skipped(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    runs: list[int] = []
    work = dramatiq.actor(actor_name="work", max_age=1_000)(runs.append)
    old = work.message(1).copy(message_timestamp=int(time.time() * 1000) - 2_000)

    broker.enqueue_many([old, work.message(2)])
    make_worker(broker)
    broker.join("default", timeout=5_000)

    assert runs == [2]
    assert [Message.decode(letter["m"]).args for letter in queue.dead()] == [(1,)]


def test_actor_that_is_told_of_a_shutdown_runs_again_elsewhere(
    make_broker: MakeBroker, make_worker: MakeWorker
) -> None:
    outcomes: list[str] = []

    @dramatiq.actor(notify_shutdown=True, min_backoff=1, broker=make_broker())
    def work() -> None:
        if outcomes:
            outcomes.append("finished")
            return
        outcomes.append("started")
        try:
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                threading.Event().wait(0.001)
        except Shutdown:
            outcomes.append("shut down")
            raise

    work.send()
    first = make_worker(work.broker)
    wait_until(lambda: outcomes)
    first.stop()
    make_worker(work.broker)
    work.broker.join("default", timeout=10_000)

    assert outcomes == ["started", "shut down", "finished"]


@pytest.mark.parametrize("retries", [3])
def test_many_failing_messages_are_all_retried_to_their_end(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState, retries: int
) -> None:
    attempts: list[int] = []

    @dramatiq.actor(max_retries=retries, min_backoff=1, max_backoff=10)
    def work(number: int) -> None:
        attempts.append(number)
        raise ZeroDivisionError

    broker.enqueue_many([work.message(number) for number in range(100)])
    make_worker(broker, threads=8)
    broker.join("default", timeout=30_000)

    assert sorted(attempts) == sorted(list(range(100)) * (retries + 1))
    assert len(queue.dead()) == 100
