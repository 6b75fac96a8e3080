"""Rate limits, Prometheus, asyncio and CurrentMessage of dramatiq over the broker."""

import asyncio
import secrets
import threading
from typing import Any

import dramatiq
from dramatiq.middleware import AsyncIO, CurrentMessage
from dramatiq.middleware.prometheus import Prometheus
from dramatiq.rate_limits import ConcurrentRateLimiter, WindowRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as RateLimiterRedisBackend

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeWorker
from tests.support.waiting import wait_until


def test_concurrent_limit_lets_all_through_one_after_the_other(
    broker: StreamsBroker, make_worker: MakeWorker, limiter_backend: RateLimiterRedisBackend
) -> None:
    mutex = ConcurrentRateLimiter(limiter_backend, f"mutex-{secrets.token_hex(6)}", limit=1)
    running: list[int] = []
    done: list[int] = []

    @dramatiq.actor(min_backoff=5, max_backoff=30, max_retries=100)
    def work(number: int) -> None:
        with mutex.acquire():
            running.append(number)
            assert running == [number]
            threading.Event().wait(0.005)
            running.remove(number)
            done.append(number)

    broker.enqueue_many([work.message(number) for number in range(12)])
    make_worker(broker, threads=4)
    broker.join("default", timeout=20_000)

    assert sorted(done) == list(range(12))


def test_window_limit_costs_retries_and_no_message(
    broker: StreamsBroker, make_worker: MakeWorker, limiter_backend: RateLimiterRedisBackend
) -> None:
    window = WindowRateLimiter(limiter_backend, f"window-{secrets.token_hex(6)}", limit=5, window=1)
    done: list[int] = []

    @dramatiq.actor(min_backoff=100, max_backoff=400, max_retries=100)
    def work(number: int) -> None:
        with window.acquire():
            done.append(number)

    broker.enqueue_many([work.message(number) for number in range(8)])
    make_worker(broker, threads=4)
    broker.join("default", timeout=20_000)

    assert sorted(done) == list(range(8))


def test_prometheus_counts_messages_retries_and_rejects(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    metrics = Prometheus()
    metrics.after_process_boot(broker)
    metrics.after_worker_shutdown = lambda *_: None  # type: ignore[method-assign]
    broker.add_middleware(metrics)

    @dramatiq.actor(max_retries=2, min_backoff=1, max_backoff=2)
    def work(fails: bool) -> None:
        if fails:
            raise ZeroDivisionError

    for fails in (False, False, True):
        work.send_with_options(args=(fails,), delay=10)
    make_worker(broker)
    broker.join("default", timeout=5_000)

    def value(metric: Any) -> float:
        return sum(s.value for m in metric.collect() for s in m.samples if "_created" not in s.name)

    # They are counted after the message was settled, each in its thread.
    wait_until(lambda: value(metrics.total_rejected_messages) == 1)
    wait_until(lambda: value(metrics.total_messages) == 5)
    wait_until(lambda: value(metrics.inprogress_messages) == 0)
    assert value(metrics.total_errored_messages) == 3
    assert value(metrics.total_retried_messages) == 2
    assert value(metrics.inprogress_delayed_messages) == 0
    labels = {s.labels["queue_name"] for m in metrics.total_messages.collect() for s in m.samples}
    assert labels == {"default"}


def test_async_actors_run_and_send_from_the_event_loop(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    broker.add_middleware(AsyncIO())
    threads: set[str] = set()
    done: list[int] = []

    @dramatiq.actor
    async def first(number: int) -> None:
        await asyncio.sleep(0)
        threads.add(threading.current_thread().name)
        second.send(number)

    @dramatiq.actor
    async def second(number: int) -> None:
        done.append(number)

    broker.enqueue_many([first.message(number) for number in range(50)])
    make_worker(broker, threads=4)
    broker.join("default", timeout=10_000)

    assert sorted(done) == list(range(50))
    assert len(threads) == 1


def test_current_message_is_the_one_that_runs(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    broker.add_middleware(CurrentMessage())
    seen: list[tuple[str, str, int]] = []

    @dramatiq.actor(max_retries=1, min_backoff=1)
    def work() -> None:
        message = CurrentMessage.get_current_message()
        assert message is not None
        seen.append((message.message_id, message.queue_name, message.options.get("retries", 0)))
        if len(seen) == 1:
            raise ZeroDivisionError

    sent = work.send()
    make_worker(broker)
    broker.join("default", timeout=5_000)

    assert seen == [(sent.message_id, "default", 0), (sent.message_id, "default", 1)]
