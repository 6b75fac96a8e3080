"""A key is held for as long as its actor runs; what its holder learns when it is not."""

import logging
import threading
import time
from typing import Any

import dramatiq
import pytest

from dramatiq_streams import LeaseLost
from dramatiq_streams.events import Event
from dramatiq_streams.middleware import current_fencing_token, lease_is_lost
from dramatiq_streams.middleware.idempotency.claiming import Claimant
from tests.conftest import MakeWorker
from tests.integration.idempotency.conftest import (
    LEASE_MS,
    IdempotentBroker,
    MakeIdempotent,
    declared,
)
from tests.support.locking import LockServers
from tests.support.waiting import wait_until

#: Where it must not end: longer than a busy machine stands still.
KEPT_LEASE_MS = 2 * LEASE_MS


class Task:
    """An actor that runs until it is let go, and what it saw."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.is_lost: list[bool] = []
        self.raised: list[type[BaseException]] = []
        self.go = threading.Event()

    def run(self, url: str) -> str:
        self.tokens.append(current_fencing_token())
        deadline = time.monotonic() + 20
        try:
            # In short steps: an interrupt comes between two of them.
            while not self.go.wait(0.01) and time.monotonic() < deadline:
                pass
        except BaseException as error:
            self.raised.append(type(error))
            raise
        finally:
            self.is_lost.append(lease_is_lost())
        return url


@pytest.fixture
def task() -> Task:
    return Task()


def start(broker: IdempotentBroker, task: Task, **options: Any) -> dramatiq.Actor[..., Any]:
    actor = declared(
        task.run, broker=broker, actor_name="run", idempotency_key="{url}", max_retries=0, **options
    )
    actor.send("a")
    wait_until(lambda: task.tokens, message="it runs")
    return actor


def lock_key(broker: IdempotentBroker) -> str:
    return str(broker.records.lock_key("run:a"))


@pytest.mark.parametrize("count", [0, 3])
def test_key_is_held_for_longer_than_its_lease(
    make_idempotent: MakeIdempotent,
    make_worker: MakeWorker,
    task: Task,
    lockers: LockServers,
    count: int,
) -> None:
    masters = [server.url for server in lockers.servers[:count]] or None
    broker = make_idempotent(masters=masters, lease=KEPT_LEASE_MS)
    make_worker(broker)
    actor = start(broker, task)
    ends = {broker.records.show("run:a").lease_end_ms}

    actor.send("a")

    def next_end() -> bool:
        ends.add(broker.records.show("run:a").lease_end_ms)
        return len(ends) >= 6

    wait_until(next_end, message="two leases have passed")
    task.go.set()
    broker.join("default", timeout=10_000)

    assert max(ends) - min(ends) >= KEPT_LEASE_MS
    assert len(task.tokens) == 1
    assert task.is_lost == [False]
    assert broker.told.count(Event.LOCK_EXTENDED) >= 4


def test_actor_that_asked_for_it_is_interrupted_when_its_lock_is_lost(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, task: Task
) -> None:
    broker = make_idempotent(lease=LEASE_MS)
    make_worker(broker)
    start(broker, task, idempotency_interrupt=True)

    broker.witness.set(lock_key(broker), "somebody else")
    wait_until(lambda: task.raised, message="it is interrupted")
    broker.join("default", timeout=10_000)

    assert task.raised == [LeaseLost]
    assert task.is_lost == [True]
    assert broker.told.count(Event.LOCK_LOST) == 1
    assert broker.witness.get(lock_key(broker)) == b"somebody else"


def test_actor_can_ask_whether_its_lease_is_lost(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, task: Task
) -> None:
    broker = make_idempotent(lease=LEASE_MS)
    make_worker(broker)
    start(broker, task)

    broker.witness.delete(lock_key(broker))
    wait_until(lambda: Event.LOCK_LOST in broker.told, message="it is noticed")
    task.go.set()
    broker.join("default", timeout=10_000)

    assert (task.raised, task.is_lost) == ([], [True])
    # Nobody else has started: its token is still the newest.
    assert broker.records.show("run:a").state == "done"
    assert Event.COMPLETED_TOO_LATE not in broker.told


def test_option_of_a_message_can_ask_for_the_interrupt(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, task: Task
) -> None:
    broker = make_idempotent(lease=LEASE_MS)
    make_worker(broker)
    actor = declared(
        task.run, broker=broker, actor_name="run", idempotency_key="{url}", max_retries=0
    )
    actor.send_with_options(args=("a",), idempotency_interrupt=True)
    wait_until(lambda: task.tokens, message="it runs")

    broker.witness.delete(lock_key(broker))
    wait_until(lambda: task.raised, message="it is interrupted")

    assert task.raised == [LeaseLost]


def test_key_that_an_operator_releases_is_free_at_once_and_its_holder_too_late(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, task: Task
) -> None:
    broker = make_idempotent(lease=LEASE_MS)
    make_worker(broker)
    actor = start(broker, task)

    is_released = broker.records.release("run:a")
    wait_until(lambda: Event.LOCK_LOST in broker.told, message="its holder notices")
    assert broker.records.show("run:a").state == "pending"
    task.go.set()
    broker.join("default", timeout=10_000)
    late = broker.told.count(Event.COMPLETED_TOO_LATE)
    actor.send("a")
    broker.join("default", timeout=10_000)

    assert is_released
    assert late == 1
    assert len(task.tokens) == 2
    assert broker.records.show("run:a").token == max(task.tokens)
    assert broker.records.show("run:a").state == "done"


def test_release_of_a_key_that_is_done_lets_it_run_again(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, task: Task
) -> None:
    broker = make_idempotent()
    task.go.set()
    make_worker(broker)
    actor = start(broker, task)
    broker.join("default", timeout=10_000)

    released = broker.records.release("run:a"), broker.records.release("run:b")
    actor.send("a")
    broker.join("default", timeout=10_000)

    assert released == (True, False)
    assert len(task.tokens) == 2


def test_worker_that_stops_releases_its_keys_when_its_actors_have_ended(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, task: Task
) -> None:
    broker = make_idempotent()
    worker = make_worker(broker, threads=1)
    start(broker, task)
    threading.Timer(0.2, task.go.set).start()

    worker.stop(timeout=10_000)

    assert broker.witness.exists(lock_key(broker)) == 0
    assert broker.records.show("run:a").state == "done"


ABSENT = [f"unix:///nonexistent/{number}" for number in range(2)]


@pytest.mark.parametrize("policy", ["run", "defer", "fail"])
def test_without_a_quorum_a_message_does_what_it_was_told(
    make_idempotent: MakeIdempotent,
    make_worker: MakeWorker,
    task: Task,
    lockers: LockServers,
    policy: str,
) -> None:
    masters = [lockers.servers[0].url, *ABSENT]
    broker = make_idempotent(masters=masters, lease=LEASE_MS, on_unavailable=policy)
    task.go.set()
    actor = declared(
        task.run, broker=broker, actor_name="run", idempotency_key="{url}", max_retries=0
    )
    make_worker(broker)

    message = actor.send("a")
    ended = {
        "run": lambda: task.tokens,
        "defer": lambda: broker.told.count(Event.DEFERRED) >= 2,
        "fail": lambda: broker.letters,
    }
    wait_until(ended[policy], message=policy)

    assert bool(task.tokens) is (policy == "run")
    if policy == "run":
        broker.join("default", timeout=10_000)
        assert broker.records.show("run:a").state == "done"
    elif policy == "fail":
        (fields,) = broker.letters
        assert dramatiq.Message.decode(fields[b"m"]).message_id == message.message_id
        assert b"NotClaimed" in fields[b"error"]
        assert b"2 of 3" in fields[b"error"]


@pytest.mark.parametrize("policy", ["run", "defer"])
def test_missing_quorum_is_one_line_however_many_messages_meet_it(
    make_idempotent: MakeIdempotent,
    make_worker: MakeWorker,
    task: Task,
    caplog: pytest.LogCaptureFixture,
    policy: str,
) -> None:
    broker = make_idempotent(masters=ABSENT, lease=LEASE_MS, on_unavailable=policy)
    task.go.set()
    actor = declared(task.run, broker=broker, actor_name="run", idempotency_key="{url}")
    broker.enqueue_many([actor.message(str(number)) for number in range(20)])
    caplog.set_level(logging.WARNING, logger=Claimant.__module__)
    # One thread, so that they meet it one after the other.
    make_worker(broker, threads=1)
    met = {"run": lambda: len(task.tokens), "defer": lambda: broker.told.count(Event.DEFERRED)}
    wait_until(lambda: met[policy]() >= 20, message="all have met it")

    said = [each for each in caplog.records if each.name.startswith(Claimant.__module__)]
    assert [each.levelname for each in said] == ["WARNING"]


def test_key_that_runs_without_a_lock_is_still_held_by_its_record(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, task: Task
) -> None:
    broker = make_idempotent(masters=ABSENT, lease=KEPT_LEASE_MS)
    make_worker(broker)
    actor = start(broker, task)
    end_ms = broker.records.show("run:a").lease_end_ms

    actor.send("a")
    wait_until(lambda: Event.DEFERRED in broker.told, message="the duplicate waits")
    wait_until(
        lambda: broker.records.show("run:a").lease_end_ms > end_ms + KEPT_LEASE_MS,
        message="the record is kept",
    )
    task.go.set()
    broker.join("default", timeout=10_000)

    assert len(task.tokens) == 1
    assert task.is_lost == [False]
