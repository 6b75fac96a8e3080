"""Dramatiq's callbacks, pipelines, groups and results over the broker."""

import dramatiq
import pytest
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend as RateLimiterRedisBackend
from dramatiq.results import ResultFailure, Results
from dramatiq.results.backends import RedisBackend as ResultRedisBackend

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeWorker
from tests.support.waiting import wait_until


@pytest.fixture
def results(broker: StreamsBroker, result_backend: ResultRedisBackend) -> StreamsBroker:
    """The broker with results in Redis."""
    broker.add_middleware(Results(backend=result_backend, store_results=True))
    return broker


def declare_arithmetic() -> tuple[dramatiq.Actor, dramatiq.Actor]:
    def add(left: int, right: int) -> int:
        return left + right

    def double(number: int) -> int:
        return 2 * number

    return dramatiq.actor(add), dramatiq.actor(double)


def test_success_and_failure_are_told_to_other_actors(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    told: list[object] = []

    @dramatiq.actor(max_retries=0)
    def work(fails: bool) -> str:
        if fails:
            raise ZeroDivisionError("by nought")
        return "done"

    @dramatiq.actor
    def succeeded(message: dict, result: str) -> None:
        told.append(("succeeded", message["args"], result))

    @dramatiq.actor
    def failed(message: dict, error: dict) -> None:
        told.append(("failed", message["args"], error["type"]))

    for fails in (False, True):
        work.send_with_options(args=(fails,), on_success=succeeded, on_failure=failed)
    make_worker(broker)
    broker.join("default", timeout=5_000)

    assert sorted(told, key=str) == [
        ("failed", [True], "ZeroDivisionError"),
        ("succeeded", [False], "done"),
    ]


def test_result_is_stored_and_read_from_any_queue_name(
    results: StreamsBroker, make_worker: MakeWorker
) -> None:
    add, _ = declare_arithmetic()
    make_worker(results)

    now = add.send(1, 2)
    later = add.send_with_options(args=(3, 4), delay=30)

    assert now.get_result(block=True, timeout=5_000) == 3
    assert later.get_result(block=True, timeout=5_000) == 7


def test_failure_is_stored_as_a_result(results: StreamsBroker, make_worker: MakeWorker) -> None:
    @dramatiq.actor(max_retries=1, min_backoff=1)
    def work() -> None:
        raise ZeroDivisionError("by nought")

    make_worker(results)
    message = work.send()

    with pytest.raises(ResultFailure, match="by nought"):
        message.get_result(block=True, timeout=5_000)


def test_pipeline_passes_results_on(results: StreamsBroker, make_worker: MakeWorker) -> None:
    add, double = declare_arithmetic()
    make_worker(results)

    pipeline = add.message(1, 2) | double.message() | add.message(10) | double.message()
    pipeline.run()

    assert pipeline.get_result(block=True, timeout=5_000) == 32
    assert list(pipeline.get_results(block=True, timeout=5_000)) == [3, 6, 16, 32]


def test_pipeline_step_may_have_a_delay(results: StreamsBroker, make_worker: MakeWorker) -> None:
    add, double = declare_arithmetic()
    make_worker(results)
    step = double.message_with_options(delay=50)

    pipeline = (add.message(1, 2) | step).run(delay=20)

    assert pipeline.get_result(block=True, timeout=5_000) == 6


def test_group_runs_in_parallel_and_waits(results: StreamsBroker, make_worker: MakeWorker) -> None:
    add, double = declare_arithmetic()
    make_worker(results)

    group = dramatiq.group([add.message(n, n) | double.message() for n in range(10)]).run()
    group.wait(timeout=10_000)

    assert list(group.get_results()) == [4 * n for n in range(10)]


def test_group_calls_back_once_when_all_are_done(
    broker: StreamsBroker, make_worker: MakeWorker, limiter_backend: RateLimiterRedisBackend
) -> None:
    broker.add_middleware(GroupCallbacks(limiter_backend, barrier_ttl=10_000))
    done: list[object] = []

    @dramatiq.actor(max_retries=3, min_backoff=1, max_backoff=5)
    def work(number: int) -> None:
        done.append(number)
        if done.count(number) == 1 and number % 3 == 0:
            raise ZeroDivisionError

    @dramatiq.actor
    def finish() -> None:
        done.append("finished")

    group = dramatiq.group([work.message(number) for number in range(9)])
    group.add_completion_callback(finish.message())
    group.run()
    make_worker(broker, threads=4)
    wait_until(lambda: "finished" in done)
    broker.join("default", timeout=5_000)

    assert done[-1] == "finished"
    assert done.count("finished") == 1
    assert set(done[:-1]) == set(range(9))
