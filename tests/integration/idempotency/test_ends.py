"""How a claim ends: with what the message caused, by an interrupt, or skipped by somebody else."""

import threading
from typing import Any

import pytest
from dramatiq.errors import ConnectionFailed
from dramatiq.middleware import (
    AsyncIO,
    CurrentMessage,
    Middleware,
    Shutdown,
    SkipMessage,
    TimeLimit,
    TimeLimitExceeded,
)

from dramatiq_streams import NoFencingToken
from dramatiq_streams.events import Event
from dramatiq_streams.middleware import current_fencing_token, lease_is_lost
from dramatiq_streams.middleware.idempotency import middleware
from tests.conftest import MakeWorker
from tests.integration.idempotency.conftest import LEASE_MS, MakeIdempotent, declared
from tests.support.waiting import wait_until


def state_of(broker: Any, key: str) -> str:
    record = broker.records.show(key)
    return "" if record is None else str(record.state)


def test_next_step_of_a_pipeline_is_enqueued_before_the_key_is_done(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_idempotent()
    states: list[str] = []
    first = declared(lambda url: url, broker=broker, actor_name="first", idempotency_key="{url}")
    second = declared(lambda url: None, broker=broker, actor_name="second")
    enqueue = broker.enqueue

    def watched(message: Any, *, delay: int | None = None) -> Any:
        states.append(state_of(broker, "first:a"))
        return enqueue(message, delay=delay)

    monkeypatch.setattr(broker, "enqueue", watched)

    (first.message("a") | second.message()).run()
    make_worker(broker)
    broker.join("default", timeout=10_000)

    assert states == ["", "running"]
    assert state_of(broker, "first:a") == "done"


def test_key_is_not_done_when_the_next_step_could_not_be_enqueued(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_idempotent({"lease": 1_000})
    runs: list[str] = []
    first = declared(runs.append, broker=broker, actor_name="first", idempotency_key=str)
    second = declared(lambda url: None, broker=broker, actor_name="second")
    (first.message("a") | second.message()).run()
    prepare = broker._preparing.prepare
    failures = iter([ConnectionFailed("away")])

    def failing(*args: Any, **kwargs: Any) -> Any:
        for failure in failures:
            raise failure
        return prepare(*args, **kwargs)

    monkeypatch.setattr(broker._preparing, "prepare", failing)
    make_worker(broker)
    wait_until(lambda: runs, message="it ran")
    failed = wait_until(lambda: broker.records.show("first:a").finished_ms, message="it ended")
    broker.join("default", timeout=10_000)

    assert failed
    assert runs == ["a", "a"]
    assert broker.records.show("first:a").attempts == 2


@pytest.mark.parametrize(
    ("options", "interrupt"),
    [({"time_limit": 100}, TimeLimitExceeded), ({"notify_shutdown": True}, Shutdown)],
)
def test_interrupted_actor_frees_its_key_at_once(
    make_idempotent: MakeIdempotent,
    make_worker: MakeWorker,
    options: dict[str, Any],
    interrupt: type[BaseException],
) -> None:
    broker = make_idempotent()
    raised: list[BaseException] = []
    started = threading.Event()

    def fetch(url: str) -> None:
        started.set()
        try:
            wait_until(lambda: False, timeout=20)
        except BaseException as error:
            raised.append(error)
            raise

    for each in broker.middleware:
        if isinstance(each, TimeLimit):
            each.manager.interval = 0.02
    actor = declared(fetch, broker=broker, idempotency_key="{url}", max_retries=0, **options)
    broker.emit_after("process_boot")
    worker = make_worker(broker, threads=1)
    actor.send("a")
    assert started.wait(10)
    if interrupt is Shutdown:
        worker.stop(timeout=10_000)
    wait_until(lambda: state_of(broker, "fetch:a") == "failed", message="its key is free")

    assert [type(error) for error in raised] == [interrupt]
    assert broker.records.held() == []
    locks = f"{{{broker.namespace}:idempotency}}:lock:*"
    wait_until(lambda: broker.witness.keys(locks) == [], message="its lock is free")


class SkipsOnce(Middleware):
    """Skips the first message of each actor."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def before_process_message(self, broker: Any, message: Any) -> None:
        if message.actor_name not in self.skipped:
            self.skipped.append(message.actor_name)
            raise SkipMessage


def test_message_that_another_middleware_skips_frees_its_key(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker
) -> None:
    broker = make_idempotent()
    broker.add_middleware(SkipsOnce())
    runs: list[str] = []
    actor = declared(runs.append, broker=broker, actor_name="fetch", idempotency_key=str)
    make_worker(broker, threads=1)

    actor.send("a")
    broker.join("default", timeout=10_000)
    skipped = state_of(broker, "fetch:a")
    actor.send("a")
    broker.join("default", timeout=10_000)

    assert skipped == "failed"
    assert runs == ["a"]


class BreaksOff(Middleware):
    """An interrupt in the middle of what follows the first actor, as from `TimeLimit`."""

    def __init__(self) -> None:
        self.left = 2

    def after_process_message(self, broker: Any, message: Any, **_: Any) -> None:
        if self.left:
            self.left -= 1
            raise TimeLimitExceeded


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_key_is_free_when_an_interrupt_cuts_short_what_follows_the_actor(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker
) -> None:
    broker = make_idempotent({"lease": 1_000})
    broker.add_middleware(BreaksOff())
    actor = declared(lambda url: None, broker=broker, actor_name="fetch", idempotency_key="{url}")
    make_worker(broker, threads=2)

    actor.send("a")
    wait_until(lambda: state_of(broker, "fetch:a") in ("failed", "done"), message="it is free")

    assert broker.records.held() == []


def test_key_that_an_interrupt_leaves_behind_is_free_after_its_lease(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_idempotent(lease=LEASE_MS)
    runs: list[str] = []
    interrupts = iter([TimeLimitExceeded()])

    def interrupted(message: Any) -> None:
        for interrupt in interrupts:
            raise interrupt

    # Between the claim and its being noted.
    monkeypatch.setattr(middleware, "forget_deferrals", interrupted)
    actor = declared(
        runs.append,
        broker=broker,
        actor_name="fetch",
        idempotency_key=str,
        min_backoff=5,
        max_backoff=5,
    )
    make_worker(broker, threads=1)

    actor.send("a")
    broker.join("default", timeout=10_000)

    assert runs == ["a"]
    assert broker.records.show("fetch:a").attempts == 2
    assert broker.witness.exists(broker.records.lock_key("fetch:a")) == 0


def test_actor_that_awaits_sees_its_token(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker
) -> None:
    broker = make_idempotent()
    broker.add_middleware(AsyncIO())
    seen: list[Any] = []

    async def fetch(url: str) -> None:
        seen.append((current_fencing_token(), lease_is_lost(), threading.current_thread().name))

    actor = declared(fetch, broker=broker, idempotency_key="{url}")
    make_worker(broker)

    actor.send("a")
    broker.join("default", timeout=10_000)

    ((token, is_lost, _),) = seen
    assert token == broker.records.show("fetch:a").token
    assert not is_lost


def test_token_is_gone_when_the_next_message_of_the_thread_runs(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker
) -> None:
    broker = make_idempotent()
    broker.add_middleware(CurrentMessage())
    raised: list[BaseException] = []

    def plain() -> None:
        try:
            current_fencing_token()
        except NoFencingToken as error:
            raised.append(error)

    keyed = declared(lambda: None, broker=broker, actor_name="keyed", idempotency_key="once")
    actor = declared(plain, broker=broker)
    make_worker(broker, threads=1)

    for _ in range(2):
        keyed.send()
        actor.send()
    broker.join("default", timeout=10_000)

    assert len(raised) == 2
    assert broker.told.count(Event.DUPLICATE_SKIPPED) == 1
