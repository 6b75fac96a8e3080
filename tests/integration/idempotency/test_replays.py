"""Duplicates whose callers get the result of the first."""

import pytest
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from dramatiq_streams.middleware.idempotency.replays import REPLAY_LIMIT
from tests.conftest import MakeWorker
from tests.integration.idempotency.conftest import (
    SECOND_MS,
    IdempotentBroker,
    MakeIdempotent,
    Runs,
    declare,
    declared,
)


@pytest.fixture
def replaying(make_idempotent: MakeIdempotent, result_backend: RedisBackend) -> IdempotentBroker:
    broker = make_idempotent(on_duplicate="replay")
    broker.add_middleware(Results(backend=result_backend, store_results=True))
    return broker


def test_caller_of_a_duplicate_gets_the_result_of_the_first(
    replaying: IdempotentBroker, make_worker: MakeWorker, runs: Runs
) -> None:
    fetch = declare(replaying, runs, idempotency_key="{url}")
    make_worker(replaying)

    first, second = fetch.send("a"), fetch.send("a")
    results = [each.get_result(block=True, timeout=5 * SECOND_MS) for each in (first, second)]

    assert results == [1, 1]
    assert len(runs) == 1


def test_result_that_is_none_is_replayed_too(
    replaying: IdempotentBroker, make_worker: MakeWorker
) -> None:
    quiet = declared(
        lambda url: None, broker=replaying, actor_name="quiet", idempotency_key="{url}"
    )
    make_worker(replaying)

    results = [quiet.send("a").get_result(block=True, timeout=5 * SECOND_MS) for _ in range(2)]

    assert results == [None, None]


def test_large_result_is_not_kept_and_its_duplicate_is_skipped(
    replaying: IdempotentBroker, make_worker: MakeWorker
) -> None:
    large = declared(
        lambda url: "x" * REPLAY_LIMIT,
        broker=replaying,
        actor_name="large",
        idempotency_key="{url}",
    )
    make_worker(replaying)

    results = [large.send("a").get_result(block=True, timeout=5 * SECOND_MS) for _ in range(2)]

    assert [result is None for result in results] == [False, True]
    tag = f"{{{replaying.namespace}:idempotency}}:record:large:a"
    assert replaying.witness.memory_usage(tag) < 2_000
