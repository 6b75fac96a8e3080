"""Messages with a key that somebody else runs: they wait without using anything up."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import dramatiq
import pytest
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from dramatiq_streams.events import Event
from dramatiq_streams.letters import LetterFilter
from dramatiq_streams.middleware.idempotency.deferring import DEFERRALS, DELIVERIES
from dramatiq_streams.middleware.idempotency.masters import Masters
from dramatiq_streams.middleware.idempotency.redlock import Redlock
from dramatiq_streams.middleware.idempotency.refusals import Refusals
from tests.conftest import MakeWorker
from tests.contract.queue_state import QueueState
from tests.integration.idempotency.conftest import (
    LEASE_MS,
    IdempotentBroker,
    MakeIdempotent,
    declared,
)
from tests.support.servers import Server
from tests.support.waiting import wait_until


class Gate:
    """An actor that waits to be let through, and what it did."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.ended: list[int] = []
        self.is_open = threading.Event()

    def run(self, key: str, number: int) -> int:
        self.started.append(number)
        assert self.is_open.wait(20)
        self.ended.append(number)
        return number


@pytest.fixture
def gate() -> Gate:
    return Gate()


def declare(broker: dramatiq.Broker, gate: Gate, **options: Any) -> dramatiq.Actor[..., Any]:
    # The key of each message is its own option: its arguments may differ only by the number.
    return declared(gate.run, broker=broker, actor_name="gate", **options)


def start_one(broker: IdempotentBroker, gate: Gate, **options: Any) -> dramatiq.Actor[..., Any]:
    """Let one message run, and return its actor."""
    actor = declare(broker, gate, idempotency_key="{key}", **options)
    actor.send("a", 1)
    wait_until(lambda: gate.started, message="the first one runs")
    return actor


def note_looks(broker: IdempotentBroker) -> threading.Event:
    """Set when the record of a message is looked at from now on."""
    looked = threading.Event()
    look = broker.records.look

    def noted(request: Any) -> Any:
        looked.set()
        return look(request)

    broker.records.look = noted
    return looked


def delayed(broker: IdempotentBroker) -> list[dramatiq.Message[Any]]:
    """The messages that wait to be delivered again."""
    packed: Any = broker.witness.hvals(f"{{{broker.namespace}:default:0}}:delayed:messages")
    return [dramatiq.Message.decode(each.partition(b":")[2]) for each in packed]


def test_busy_message_is_deferred_and_uses_up_no_retry_and_no_delivery(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, gate: Gate, queue: QueueState
) -> None:
    broker = make_idempotent()
    make_worker(broker)
    actor = start_one(broker, gate)

    sent = actor.send("a", 1)
    (waiting,) = wait_until(lambda: delayed(broker), message="it is deferred")
    wait_until(lambda: broker.told.count(Event.DEFERRED) >= 2, message="it is deferred again")
    gate.is_open.set()
    broker.join("default", timeout=10_000)

    assert waiting.message_id == sent.message_id
    assert waiting.message_timestamp == sent.message_timestamp
    assert "retries" not in waiting.options
    assert waiting.options[DEFERRALS] == 1
    assert (gate.started, gate.ended) == ([1], [1])
    assert broker.told.count(Event.DUPLICATE_SKIPPED) == 1


@pytest.mark.parametrize(
    ("on_busy", "level", "deed"),
    [
        ("defer", "DEBUG", "another worker has it, message {} waits for"),
        ("skip", "INFO", "message {} runs, {} is skipped"),
    ],
)
def test_log_says_what_becomes_of_a_busy_message(
    *,
    make_idempotent: MakeIdempotent,
    make_worker: MakeWorker,
    gate: Gate,
    caplog: pytest.LogCaptureFixture,
    on_busy: str,
    level: str,
    deed: str,
) -> None:
    caplog.set_level(logging.DEBUG, logger=Refusals.__module__)
    broker = make_idempotent(on_busy=on_busy)
    make_worker(broker)
    actor = start_one(broker, gate)

    second = actor.send("a", 1)
    said = wait_until(
        lambda: [each for each in caplog.records if each.name.startswith(Refusals.__module__)],
        message="something is logged",
    )
    first_id = broker.records.show("gate:a").message_id
    gate.is_open.set()
    broker.join("default", timeout=10_000)

    named = [first_id, second.message_id] if on_busy == "skip" else [second.message_id]
    assert said[0].levelname == level
    assert said[0].getMessage().startswith(f"Key 'gate:a': {deed.format(*named)}")


def test_deferred_message_runs_when_the_first_one_fails(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker
) -> None:
    broker = make_idempotent()
    runs: list[str] = []
    failing = threading.Event()

    def fetch(url: str) -> None:
        runs.append(url)
        if len(runs) == 1:
            assert failing.wait(20)
            raise RuntimeError("fails")

    actor = declared(fetch, broker=broker, idempotency_key="{url}", max_retries=0)
    make_worker(broker)
    actor.send("a")
    wait_until(lambda: runs, message="the first one runs")

    actor.send("a")
    wait_until(lambda: Event.DEFERRED in broker.told, message="the second one is deferred")
    failing.set()
    broker.join("default", timeout=10_000)

    assert runs == ["a", "a"]
    assert broker.records.show("fetch:a").state == "done"


def test_retry_of_a_message_that_was_deferred_begins_anew(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker
) -> None:
    broker = make_idempotent()
    options: list[dict[str, Any]] = []

    class Seen(dramatiq.Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            options.append(dict(message.options))

    def fetch(url: str) -> None:
        if len(options) == 1:
            raise RuntimeError("fails")

    broker.add_middleware(Seen())
    actor = declared(fetch, broker=broker, idempotency_key="{url}", min_backoff=5, max_backoff=5)
    counts = {DEFERRALS: 3, DELIVERIES: 2}
    actor.send_with_options(args=("a",), kwargs={}, **counts)
    make_worker(broker)
    broker.join("default", timeout=10_000)

    assert [counts.keys() & each.keys() for each in options] == [set(), set()]


def test_redriven_message_has_all_its_deliveries_again(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker
) -> None:
    broker = make_idempotent(broker={"max_deliveries": 2})
    ran: list[str] = []
    actor = declared(ran.append, broker=broker, actor_name="fetch", idempotency_key="{object}")
    # As it is after two deliveries to workers that died, each followed by a deferral.
    actor.send_with_options(args=("a",), kwargs={}, **{DEFERRALS: 2, DELIVERIES: 2})
    make_worker(broker)
    wait_until(lambda: broker.letters, message="it is a dead letter")
    assert ran == []

    dead_letters = broker._process.dead_letters
    (letter,) = dead_letters.letters("default", LetterFilter())
    assert b"idempotency_de" not in (letter.revived() or b"")
    dead_letters.redrive(letter)

    broker.join("default", timeout=10_000)
    assert ran == ["a"]


def test_busy_message_can_be_skipped(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, gate: Gate
) -> None:
    broker = make_idempotent(on_busy="skip")
    make_worker(broker)
    actor = start_one(broker, gate)

    actor.send("a", 1)
    wait_until(lambda: Event.DUPLICATE_SKIPPED in broker.told, message="it is skipped")
    wait_until(lambda: broker._process.queues.size("default") == 1, message="it is acknowledged")
    gate.is_open.set()
    broker.join("default", timeout=10_000)

    assert gate.started == [1]


def test_nothing_is_skipped_for_a_lock_that_nobody_may_have(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, gate: Gate, server: Server
) -> None:
    broker = make_idempotent(on_busy="skip")
    gate.is_open.set()
    actor = declare(broker, gate, idempotency_key="{key}")
    with closing(Masters([server.url])) as masters:
        about_to_start = Redlock(broker.records.lock_key("gate:a"), masters=masters, lease_ms=9_000)
        assert about_to_start.acquire()
        actor.send("a", 1)
        make_worker(broker)
        wait_until(lambda: Event.DEFERRED in broker.told, message="it is deferred")
        about_to_start.release()
    broker.join("default", timeout=10_000)

    assert gate.ended == [1]
    assert Event.DUPLICATE_SKIPPED not in broker.told


def test_busy_message_can_wait_in_its_thread(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, gate: Gate
) -> None:
    broker = make_idempotent(on_busy="wait")
    make_worker(broker)
    actor = start_one(broker, gate)
    looked = note_looks(broker)

    actor.send("a", 1)
    assert looked.wait(10)
    gate.is_open.set()
    broker.join("default", timeout=10_000)

    assert gate.started == [1]
    assert Event.DEFERRED not in broker.told


def test_wait_in_a_thread_ends_when_the_worker_stops(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, gate: Gate
) -> None:
    broker = make_idempotent(on_busy="wait", lease=60_000)
    worker = make_worker(broker)
    actor = start_one(broker, gate)
    looked = note_looks(broker)
    actor.send("a", 1)
    assert looked.wait(10)

    with ThreadPoolExecutor(1) as executor:
        stopping = executor.submit(worker.stop)
        wait_until(lambda: Event.DEFERRED in broker.told, timeout=10, message="it is deferred")
        gate.is_open.set()
        stopping.result()

    assert gate.ended == [1]


def test_wait_in_a_thread_ends_after_a_lease(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, gate: Gate
) -> None:
    broker = make_idempotent(on_busy="wait", lease=LEASE_MS)
    make_worker(broker)
    actor = start_one(broker, gate)

    actor.send("a", 1)
    wait_until(lambda: Event.DEFERRED in broker.told, message="it is deferred after all")
    gate.is_open.set()
    broker.join("default", timeout=10_000)

    assert gate.started == [1]


def test_other_keys_run_meanwhile(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, gate: Gate
) -> None:
    broker = make_idempotent()
    make_worker(broker)
    actor = start_one(broker, gate)

    actor.send("b", 2)
    wait_until(lambda: gate.started == [1, 2], message="both run")
    held = {record.key: record for record in broker.records.held()}
    gate.is_open.set()
    broker.join("default", timeout=10_000)

    assert held.keys() == {"gate:a", "gate:b"}
    assert {record.state for record in held.values()} == {"running"}
    assert broker.records.held() == []


def test_caller_of_a_deferred_message_waits_for_its_real_result(
    make_idempotent: MakeIdempotent,
    make_worker: MakeWorker,
    gate: Gate,
    result_backend: RedisBackend,
) -> None:
    broker = make_idempotent(on_duplicate="replay")
    broker.add_middleware(Results(backend=result_backend, store_results=True))
    make_worker(broker)
    actor = start_one(broker, gate)

    second = actor.send("a", 1)
    wait_until(lambda: Event.DEFERRED in broker.told, message="it is deferred")
    gate.is_open.set()

    assert second.get_result(block=True, timeout=10_000) == 1


def test_deferred_message_keeps_its_unique_key(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, gate: Gate
) -> None:
    broker = make_idempotent()
    make_worker(broker)
    actor = start_one(broker, gate)
    unique = actor.send_with_options(args=("a", 1), unique_for=60_000)
    wait_until(lambda: Event.DEFERRED in broker.told, message="it is deferred")

    again = actor.send_with_options(args=("a", 1), unique_for=60_000)
    gate.is_open.set()
    broker.join("default", timeout=10_000)

    assert again.message_id == unique.message_id
    assert gate.started == [1]


def test_sixteen_duplicates_at_once_run_once(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, gate: Gate
) -> None:
    broker = make_idempotent()
    gate.is_open.set()
    actor = declare(broker, gate, idempotency_key="{key}")
    broker.enqueue_many([actor.message(key, 1) for key in "abc" * 16])

    make_worker(broker, threads=16)
    broker.join("default", timeout=20_000)

    assert len(gate.started) == 3
