"""What frees a key: its message starts, is done or is tried again, or its time is over."""

import threading
from typing import Any

import pytest
from dramatiq.middleware import CurrentMessage, Middleware, SkipMessage

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeWorker
from tests.contract.queue_state import QueueState
from tests.integration.unique.conftest import Gate, MakeActor, UniqueKeys, wait_until_free
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000


def test_key_is_free_when_the_message_is_done(
    make_actor: MakeActor,
    gate: Gate,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    unique_keys: UniqueKeys,
) -> None:
    work = make_actor(gate.pass_through)
    first = work.send(1)
    make_worker(broker)
    gate.wait_for_starts(1)

    while_running = work.send(1)
    gate.opened.set()
    wait_until_free(unique_keys)
    afterwards = work.send(1)

    assert while_running.message_id == first.message_id
    assert afterwards.message_id != first.message_id
    gate.wait_for_starts(2)


def test_key_is_free_when_the_message_starts_if_it_is_to_be(
    make_actor: MakeActor,
    gate: Gate,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    queue: QueueState,
) -> None:
    work = make_actor(gate.pass_through, unique_until="started")
    first = work.send(1)
    make_worker(broker, threads=2)
    gate.wait_for_starts(1)

    second = work.send(1)
    gate.wait_for_starts(2)
    third = work.send(1)

    assert len({first.message_id, second.message_id, third.message_id}) == 3
    assert queue.count() == 3
    gate.opened.set()
    broker.join("default", timeout=5_000)


def test_message_that_was_only_fetched_has_not_started(
    make_actor: MakeActor,
    gate: Gate,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    queue: QueueState,
) -> None:
    work = make_actor(gate.pass_through, unique_until="started")
    messages = [work.send(number) for number in range(3)]
    make_worker(broker, threads=1, prefetch=3)
    gate.wait_for_starts(1)
    wait_until(lambda: len(queue.held()) > 1, message="more was fetched than runs")

    again = [work.send(number) for number in range(3)]

    [started] = gate.started
    same = [
        first.message_id == second.message_id for first, second in zip(messages, again, strict=True)
    ]
    assert same == [number != started for number in range(3)]
    gate.opened.set()
    broker.join("default", timeout=5_000)


def test_message_that_other_middleware_skips_has_not_started_and_frees_its_key_all_the_same(
    make_actor: MakeActor,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    unique_keys: UniqueKeys,
) -> None:
    held: list[dict[str, str]] = []

    class Skips(Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            raise SkipMessage

        def after_skip_message(self, broker: Any, message: Any) -> None:
            held.append(unique_keys.held())

    broker.add_middleware(Skips(), before=type(broker.middleware[-1]))
    first = make_actor(unique_until="started").send(1)
    make_worker(broker)

    wait_until_free(unique_keys)

    assert [list(keys.values()) for keys in held] == [[first.message_id]]


def test_retry_keeps_the_key(
    make_actor: MakeActor,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    queue: QueueState,
    unique_keys: UniqueKeys,
) -> None:
    def fail(number: int) -> None:
        raise ZeroDivisionError

    work = make_actor(fail, min_backoff=HOUR_MS, max_backoff=HOUR_MS)
    first = work.send(1)
    make_worker(broker)
    wait_until(lambda: queue.client.zcard(queue.keys.delayed), message="the retry is delayed")

    second = work.send(1)

    assert second.message_id == first.message_id
    assert queue.count() == 1
    assert list(unique_keys.held().values()) == [first.message_id]


def test_retry_of_a_message_that_had_started_does_not_have_the_key_again(
    make_actor: MakeActor,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    queue: QueueState,
    unique_keys: UniqueKeys,
) -> None:
    gate = threading.Event()
    runs: list[int] = []

    def fail_once(number: int) -> None:
        runs.append(number)
        if len(runs) == 1:
            raise ZeroDivisionError
        assert gate.wait(20)

    work = make_actor(fail_once, unique_until="started", min_backoff=1, max_backoff=1)
    first = work.send(1)
    make_worker(broker, threads=1)
    wait_until(lambda: len(runs) == 2, message="the retry runs")

    second = work.send(1)
    third = work.send(1)
    gate.set()
    broker.join("default", timeout=5_000)

    assert second.message_id != first.message_id
    assert third.message_id == second.message_id
    assert len(runs) == 3
    assert unique_keys.held() == {}


def test_retry_does_not_free_the_key_of_a_successor(
    make_actor: MakeActor,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    unique_keys: UniqueKeys,
    gate: Gate,
) -> None:
    work = make_actor(gate.pass_through)
    work.send(1)
    make_worker(broker, threads=1)
    gate.wait_for_starts(1)
    [key] = unique_keys.held()
    unique_keys.end(key)
    successor = work.send_with_options(args=(1,), delay=HOUR_MS)

    gate.opened.set()
    wait_until(lambda: broker._process.queues.size("default") == 1, message="the first is done")

    assert unique_keys.held() == {key: successor.message_id}


def test_delayed_message_runs_and_frees_its_key(
    make_actor: MakeActor,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    unique_keys: UniqueKeys,
    gate: Gate,
) -> None:
    gate.opened.set()
    work = make_actor(gate.pass_through)
    make_worker(broker)

    work.send_with_options(args=(1,), delay=50)
    gate.wait_for_starts(1)

    wait_until_free(unique_keys)


@pytest.mark.parametrize("until", ["started", "done"])
def test_message_that_enqueues_itself_again_is_not_lost(
    *,
    make_actor: MakeActor,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    queue: QueueState,
    unique_keys: UniqueKeys,
    until: str,
) -> None:
    runs: list[int] = []

    def again(number: int) -> None:
        runs.append(number)
        if len(runs) == 1:
            message = CurrentMessage.get_current_message()
            assert message is not None
            broker.enqueue(message, delay=HOUR_MS)

    broker.add_middleware(CurrentMessage())
    work = make_actor(again, unique_until=until)
    first = work.send(1)
    make_worker(broker)
    wait_until(lambda: len(queue.messages()) == 0 and runs, message="the first one is done")

    later = work.send(1)

    assert later.message_id == first.message_id
    assert queue.count() == 1
    assert list(unique_keys.held().values()) == [first.message_id]


def test_successor_that_an_actor_sends_while_it_runs_is_its_own_duplicate_unless_it_has_started(
    make_actor: MakeActor, broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    sent: dict[str, tuple[str, str]] = {}

    def send_successor(until: str) -> None:
        message = CurrentMessage.get_current_message()
        assert message is not None
        if until not in sent:
            successor = work.send_with_options(args=(until,), unique_until=until, delay=HOUR_MS)
            sent[until] = message.message_id, successor.message_id

    broker.add_middleware(CurrentMessage())
    work = make_actor(send_successor)
    for until in ("started", "done"):
        work.send_with_options(args=(until,), unique_until=until)
    make_worker(broker)
    wait_until(lambda: len(sent) == 2, message="both ran")

    assert sent["done"][0] == sent["done"][1]
    assert sent["started"][0] != sent["started"][1]


def test_ended_keys_are_forgotten_by_workers(
    make_actor: MakeActor,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    unique_keys: UniqueKeys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_actor().send_with_options(args=(1,), delay=HOUR_MS)
    [key] = unique_keys.held()
    unique_keys.end(key)

    make_worker(broker)

    wait_until(
        lambda: not unique_keys.client.exists(unique_keys.keys.unique_messages),
        message="the record is gone",
    )


def test_result_of_the_first_is_found_by_the_second(
    make_actor: MakeActor,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    result_backend: Any,
) -> None:
    from dramatiq.results import Results

    broker.add_middleware(Results(backend=result_backend))
    work = make_actor(lambda number: number + 1, store_results=True)
    first, second = work.send(1), work.send(1)
    make_worker(broker)

    assert first.get_result(backend=result_backend, block=True, timeout=5_000) == 2
    assert second.get_result(backend=result_backend) == 2
