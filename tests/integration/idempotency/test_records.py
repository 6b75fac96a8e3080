"""What is kept of a key: how it ended, for how long, and its tokens."""

from typing import Any

import redis

from dramatiq_streams.middleware import current_fencing_token
from tests.conftest import MakeWorker
from tests.integration.idempotency.conftest import MakeIdempotent, Runs, declare, declared, join


def test_what_has_failed_runs_again_and_is_done_then(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs
) -> None:
    broker = make_idempotent()
    fetch = declare(broker, runs, idempotency_key=True)
    runs.failures = 2
    make_worker(broker)

    fetch.send("a")
    join(broker)
    fetch.send("a")
    join(broker)

    (key,) = broker.witness.keys(f"{{{broker.namespace}:idempotency}}:record:*")
    record = broker.records.show(key.decode().partition(":record:")[2])
    assert (len(runs), record.state, record.attempts) == (3, "done", 3)
    assert broker.records.held() == []


def test_dead_letter_leaves_its_key_failed_and_a_duplicate_runs(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs
) -> None:
    broker = make_idempotent()
    fetch = declare(broker, runs, idempotency_key="{url}", max_retries=0)
    runs.failures = 1
    make_worker(broker)

    fetch.send("a")
    join(broker)
    failed = broker.records.show("fetch:a")
    fetch.send("a")
    join(broker)

    assert (failed.state, failed.attempts) == ("failed", 1)
    assert len(runs) == 2
    assert broker.records.show("fetch:a").state == "done"


def test_record_expires_after_the_ttl_of_message_actor_or_middleware(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs
) -> None:
    broker = make_idempotent({"lease": 1_000}, ttl=900_000, lease=600)
    fetch = declare(broker, runs, idempotency_key="{url}", idempotency_ttl=800_000)
    plain = declared(lambda url: None, broker=broker, actor_name="plain", idempotency_key="{url}")
    make_worker(broker)

    fetch.send("a")
    fetch.send_with_options(args=("b",), idempotency_ttl=700_000)
    plain.send("c")
    join(broker)

    tag = f"{{{broker.namespace}:idempotency}}:record"
    left = [broker.witness.pttl(f"{tag}:{key}") for key in ("fetch:a", "fetch:b", "plain:c")]
    assert [round(ms / 100_000) for ms in left] == [8, 7, 9]


def test_actors_and_prefixes_keep_their_keys_apart(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs
) -> None:
    broker = make_idempotent(key_prefix="mine")
    fetch = declare(broker, runs, idempotency_key="{url}")
    other = declared(
        lambda url: runs.append((url,)), broker=broker, actor_name="other", idempotency_key="{url}"
    )
    make_worker(broker)

    fetch.send("a")
    other.send("a")
    join(broker)

    assert len(runs) == 2
    keys: Any = broker.witness.keys(f"{{{broker.namespace}:mine}}:*")
    assert sorted(key.rpartition(b":record:")[2] for key in keys) == [b"fetch:a", b"other:a"]


def test_token_grows_with_each_attempt_also_after_the_record_is_gone(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, redis_client: redis.Redis
) -> None:
    broker = make_idempotent()
    tokens: list[int] = []

    def fetch(url: str) -> None:
        tokens.append(current_fencing_token())
        if len(tokens) == 1:
            raise RuntimeError("fails")

    actor = declared(fetch, broker=broker, idempotency_key="{url}", min_backoff=10, max_backoff=20)
    make_worker(broker, threads=1)

    actor.send("a")
    join(broker)
    redis_client.delete(f"{{{broker.namespace}:idempotency}}:record:fetch:a")
    actor.send("a")
    join(broker)

    assert len(tokens) == 3
    assert tokens == sorted(set(tokens))
