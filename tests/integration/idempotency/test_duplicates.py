"""Messages with a key that is done: not run again."""

import functools
import itertools
import logging
from contextlib import suppress
from typing import Any

import dramatiq
import pytest
from dramatiq.middleware import SkipMessage
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from prometheus_client import CollectorRegistry

from dramatiq_streams.events import Event
from dramatiq_streams.keys import record_keys
from dramatiq_streams.metrics import Metrics
from dramatiq_streams.middleware import Idempotency
from dramatiq_streams.middleware.idempotency.refusals import Refusals
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import QueueState
from tests.integration.idempotency.conftest import (
    MakeIdempotent,
    Runs,
    declare,
    declared,
    join,
)
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server


def test_key_is_run_once_however_often_it_is_sent(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs
) -> None:
    broker = make_idempotent()
    fetch = declare(broker, runs, idempotency_key="{url}")
    make_worker(broker, threads=4)

    for _ in range(10):
        fetch.send("a")
        fetch.send("b")
    join(broker)
    fetch.send("a")
    join(broker)

    assert sorted(runs) == [("a", 0), ("b", 0)]
    assert broker.records.show("fetch:a").state == "done"
    assert broker.told.count(Event.DUPLICATE_SKIPPED) == 19


def test_key_costs_one_round_trip_when_it_is_done_and_five_when_it_runs(
    make_idempotent: MakeIdempotent, runs: Runs, server: Server
) -> None:
    with FaultyProxy(server) as proxy:
        broker = make_idempotent({"url": proxy.url})
        fetch = declare(broker, runs, idempotency_key="{url}")
        for url in ("a", "b", "b"):
            fetch.send(url)
        consumer = broker.consume("default", prefetch=3)
        # Nothing is held back: it counts all but the heartbeats and the forwarding of delays.
        proxy.delay_replies(0, pattern=rb"\A(?!.*:(consumers|delayed)\b)")
        counts = []
        message: Any
        for message in itertools.islice(consumer, 3):
            before = proxy.counts["delay"]
            with suppress(SkipMessage):
                broker.idempotency.before_process_message(broker, message)
                broker.idempotency.after_process_message(broker, message)
            counts.append(proxy.counts["delay"] - before)
        consumer.close()

    # The first one loads the scripts.
    assert counts[1:] == [5, 1]


def test_key_with_other_arguments_is_a_dead_letter_at_once(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs, queue: QueueState
) -> None:
    broker = make_idempotent()
    fetch = declare(broker, runs, idempotency_key="{url}")
    make_worker(broker)
    first = fetch.send("a")
    join(broker)

    second = fetch.send("a", 2)
    join(broker)

    (fields,) = broker.letters
    assert dramatiq.Message.decode(fields[b"m"]).message_id == second.message_id
    assert fields[b"reason"] == b"idempotency_conflict"
    assert first.message_id.encode() in fields[b"error"]
    assert b"retries" not in fields[b"m"]
    assert runs == [("a", 0)]
    assert Event.KEY_CONFLICT in broker.told


@pytest.mark.parametrize(
    ("on_duplicate", "argument", "level", "line"),
    [
        ("skip", 0, "INFO", "message {second} is a duplicate of message {first}, skipped."),
        ("replay", 0, "INFO", "message {second} is a duplicate of message {first}, skipped."),
        (
            "raise",
            0,
            "WARNING",
            (
                "message {second} becomes a dead letter:"
                " Message {first} with the same idempotency key is done."
            ),
        ),
        (
            "skip",
            2,
            "WARNING",
            (
                "message {second} becomes a dead letter:"
                " Message {first} has the same idempotency key, and other arguments."
            ),
        ),
    ],
)
def test_log_tells_a_harmless_duplicate_from_a_dead_letter(
    *,
    make_idempotent: MakeIdempotent,
    make_worker: MakeWorker,
    runs: Runs,
    caplog: pytest.LogCaptureFixture,
    on_duplicate: str,
    argument: int,
    level: str,
    line: str,
) -> None:
    caplog.set_level(logging.INFO, logger=Refusals.__module__)
    broker = make_idempotent(on_duplicate=on_duplicate)
    if on_duplicate == "replay":
        broker.add_middleware(Results(backend=RedisBackend(client=broker.witness)))
    fetch = declare(broker, runs, idempotency_key="{url}")
    make_worker(broker)
    first = fetch.send("a")
    join(broker)

    second = fetch.send("a", argument)
    join(broker)

    said = [record for record in caplog.records if record.name.startswith(Refusals.__module__)]
    expected = line.format(first=first.message_id, second=second.message_id)
    assert [(record.levelname, record.getMessage()) for record in said] == [
        (level, f"Key 'fetch:a': {expected}")
    ]


def test_duplicate_can_become_a_dead_letter(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs
) -> None:
    broker = make_idempotent(on_duplicate="raise")
    fetch = declare(broker, runs, idempotency_key="{url}")
    make_worker(broker)
    fetch.send("a")
    join(broker)

    fetch.send("a")
    join(broker)

    (fields,) = broker.letters
    assert fields[b"reason"] == b"duplicate"
    assert len(runs) == 1


def test_message_that_is_delivered_again_after_it_was_done_is_acknowledged(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs, queue: QueueState
) -> None:
    broker = make_idempotent(on_duplicate="raise")
    fetch = declare(broker, runs, idempotency_key="{url}")
    message = fetch.send("a")
    make_worker(broker)
    join(broker)

    broker.enqueue(message)  # the same id, as after a lost acknowledgement
    join(broker)

    assert runs == [("a", 0)]
    assert broker.letters == []


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ([{}, {}], 1),
        ([{"idempotency_key": False}] * 2, 2),
        ([{"idempotency_key": "mine"}, {}], 2),
        ([{"idempotency_key": "{url}"}] * 2, 1),
        ([{"idempotency_key": True}] * 2, 1),
    ],
)
def test_option_of_a_message_comes_first(
    make_idempotent: MakeIdempotent,
    make_worker: MakeWorker,
    runs: Runs,
    options: list[dict[str, Any]],
    count: int,
) -> None:
    broker = make_idempotent()
    fetch = declare(broker, runs, idempotency_key="{url}")
    make_worker(broker, threads=1)

    for each in options:
        fetch.send_with_options(args=("a",), **each)
    join(broker)

    assert len(runs) == count


def test_message_can_have_a_key_though_its_actor_has_none(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs
) -> None:
    broker = make_idempotent()
    fetch = declare(broker, runs)
    make_worker(broker, threads=1)

    sent: list[dict[str, Any]] = [{}, {}, {"idempotency_key": True}, {"idempotency_key": True}]
    for options in sent:
        fetch.send_with_options(args=("a",), **options)
    join(broker)

    assert len(runs) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"idempotency_key": 7},
        {"idempotency_key": ""},
        {"idempotency_key": ["a"]},
        {"idempotency_ttl": 0},
        {"idempotency_ttl": 30_000},
        {"idempotency_interrupt": 1},
    ],
)
def test_wrong_option_of_a_message_from_elsewhere_makes_a_dead_letter_at_once(
    make_idempotent: MakeIdempotent,
    make_broker: MakeBroker,
    make_worker: MakeWorker,
    runs: Runs,
    options: dict[str, Any],
) -> None:
    broker = make_idempotent()
    fetch = declare(broker, runs, idempotency_key="{url}")
    make_worker(broker)

    # This one has no Idempotency, and knows nothing of its options.
    make_broker(namespace=broker.namespace).enqueue(fetch.message("a").copy(options=options))
    join(broker)

    (fields,) = broker.letters
    ((name, value),) = options.items()
    assert f"{name}={value!r} is not possible" in fields[b"error"].decode()
    assert b'"retries"' not in fields[b"m"]
    assert runs == []


def test_message_that_says_nothing_leaves_it_to_its_actor(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs
) -> None:
    broker = make_idempotent()
    fetch = declare(broker, runs, idempotency_key="{url}", idempotency_ttl=3_600_000)
    make_worker(broker)

    fetch.send_with_options(args=("a",), idempotency_ttl=None, idempotency_key=None)
    join(broker)

    record = record_keys(broker.namespace, "idempotency").record("fetch:a")
    assert 3_500_000 < broker.witness.pttl(record) <= 3_600_000


@pytest.mark.parametrize("key", ["order:{order}", True])
def test_message_whose_arguments_do_not_fit_fails_and_never_runs_without_its_key(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs, key: Any
) -> None:
    def adds_session(fn: Any) -> Any:
        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            return fn("session", *args, **kwargs)

        return run

    def ship(session: str, order: int) -> None:
        runs.note(order)

    broker = make_idempotent()
    options = {"idempotency_key": key, "max_retries": 1, "min_backoff": 10}
    sent = declared(adds_session(ship), broker=broker, actor_name="ship", **options)
    make_worker(broker)

    sent.send(7)
    join(broker)

    (fields,) = broker.letters
    assert b"cannot be called with these arguments" in fields[b"error"]
    assert b'"retries":2' in fields[b"m"]
    assert runs == []


def test_what_was_refused_is_counted(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs
) -> None:
    registry = CollectorRegistry()
    broker = make_idempotent()
    broker.add_middleware(Metrics(registry=registry), before=Idempotency)
    fetch = declare(broker, runs, idempotency_key="{url}")
    make_worker(broker)

    fetch.send("a")
    join(broker)
    fetch.send("a")
    fetch.send("a", 1)
    join(broker)

    queue = {"queue_name": "default"}
    counts = {
        name: registry.get_sample_value(f"dramatiq_streams_{name}_total", queue) or 0
        for name in ("duplicates_skipped", "key_conflicts", "late_completions", "deferred")
    }
    assert counts == {
        "duplicates_skipped": 1,
        "key_conflicts": 1,
        "late_completions": 0,
        "deferred": 0,
    }
