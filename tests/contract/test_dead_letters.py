"""Sections 2, 3 and 5: what is dead-lettered, once, with which reason."""

import json
from typing import Any

import dramatiq
import pytest
from dramatiq.message import Message
from dramatiq.middleware import Middleware

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.conftest import StartConsumer
from tests.contract.queue_state import QueueState, new_message
from tests.support.waiting import wait_until


def body(**changes: Any) -> bytes:
    """The JSON of a message in which some fields are others; None removes a field."""
    fields = {**new_message(1).asdict(), **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


MALFORMED = {
    "empty": b"",
    "no JSON": b"{",
    "not UTF-8": b"\xff\xfe\x00",
    "null": b"null",
    "a number": b"17",
    "a list": b"[1, 2]",
    "a text": b'"message"',
    "an empty object": b"{}",
    "no args": body(args=None),
    "args a number": body(args=5),
    "no queue": body(queue_name=None),
    "queue a number": body(queue_name=7),
    "actor a list": body(actor_name=["work"]),
    "kwargs a list": body(kwargs=[1]),
    "options a list": body(options=[]),
    "options a text": body(options="x"),
    "id a number": body(message_id=7),
    "timestamp a text": body(message_timestamp="now"),
    "unknown field": body(colour="blue"),
    "unknown field that is no text": b'{"\\ud800": 1, "args": []}',
    "nested too deeply": b"[" * 100_000 + b"]" * 100_000,
}
malformed = pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED.keys())


@malformed
def test_body_that_is_no_message_is_dead_lettered_as_it_is(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState, raw: bytes
) -> None:
    entry = queue.add_raw({"m": raw})
    good = broker.enqueue(new_message(2))
    consumer = start_consumer(broker)

    delivered = next(consumer)

    assert delivered is not None
    assert delivered.message_id == good.message_id
    [letter] = queue.dead()
    assert letter["m"] == raw
    assert letter["reason"] == b"undecodable"
    assert letter["error"]
    assert letter["entry"].decode() == entry
    assert ("default", entry) not in queue.pending()
    assert len(queue.messages()) == 1


@pytest.mark.parametrize(
    "fields", [{"x": b"1"}, {"M": b"1"}, {"message": b"{}", "n": b"m"}], ids=repr
)
def test_entry_without_a_body_is_dead_lettered_once(
    broker: StreamsBroker,
    start_consumer: StartConsumer,
    queue: QueueState,
    fields: dict[str, bytes],
) -> None:
    queue.add_raw(fields)
    consumer = start_consumer(broker, timeout=50)

    assert [next(consumer), next(consumer)] == [None, None]

    [letter] = queue.dead()
    assert letter["m"] == b""
    assert letter["reason"] == b"undecodable"
    assert queue.count() == 0


def test_undecodable_entry_that_wakes_a_blocked_consumer_is_dead_lettered(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    broker.declare_queue("default")
    make_worker(broker, timeout=1_000)
    wait_until(lambda: any("b" in found["flags"] for found in queue.client.client_list()))

    queue.add_raw({"m": b"{"})

    wait_until(queue.dead, message="it is a dead letter")
    broker.join("default", timeout=5_000)


def test_many_undecodable_entries_neither_stop_nor_starve_a_worker(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    runs: list[int] = []
    dramatiq.actor(actor_name="work")(runs.append)
    for number in range(60):
        queue.add_raw({"m": b"{"})
        queue.add_raw({"m": new_message(number).encode()})

    make_worker(broker)
    broker.join("default", timeout=10_000)

    assert sorted(runs) == list(range(60))
    assert len(queue.dead()) == 60


def test_undecodable_delayed_message_is_dead_lettered_when_it_is_due(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue(new_message(1), delay=10)
    [delivery] = queue.client.zrange(queue.keys.delayed, 0, -1)
    queue.client.hset(queue.keys.delayed_messages, delivery, b"nowhere:{")

    assert next(start_consumer(broker, timeout=300)) is None

    [letter] = queue.dead()
    assert letter["m"] == b"{"
    assert letter["lane"] == b"default"


@pytest.mark.parametrize("packed", [b"", b"{}", b"no colon", b":"])
def test_delayed_message_that_nobody_could_have_written_does_not_stop_the_queue(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState, packed: bytes
) -> None:
    broker.enqueue(new_message(1), delay=0)
    [delivery] = queue.client.zrange(queue.keys.delayed, 0, -1)
    queue.client.hset(queue.keys.delayed_messages, delivery, packed)
    good = broker.enqueue(new_message(2))

    delivered = next(start_consumer(broker))

    assert delivered is not None
    assert delivered.message_id == good.message_id
    assert queue.delayed() == []


def test_message_for_an_unknown_actor_is_dead_lettered(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    broker.declare_queue("default")
    sent = broker.enqueue(new_message(1, actor="nobody"))

    make_worker(broker)
    broker.join("default", timeout=5_000)

    [letter] = queue.dead()
    assert letter["reason"] == b"actor_not_found"
    assert b"nobody" in letter["error"]
    assert Message.decode(letter["m"]) == sent


def test_failed_message_is_dead_lettered_with_retries_and_traceback(
    any_broker: dramatiq.Broker, make_worker: MakeWorker, queue: QueueState
) -> None:
    @dramatiq.actor(max_retries=2, min_backoff=1, max_backoff=2)
    def work() -> None:
        raise ZeroDivisionError("by nought")

    rejected: list[dict[str, Any]] = []

    class Nacks(Middleware):
        def after_nack(self, broker, message) -> None:
            rejected.append(dict(message.options))

    any_broker.add_middleware(Nacks())
    make_worker(any_broker)
    work.send()
    wait_until(lambda: rejected, message="the message failed for good")

    [options] = rejected
    assert options["retries"] == 3
    assert "by nought" in options["traceback"]
    if isinstance(any_broker, StreamsBroker):
        [letter] = queue.dead()
        assert Message.decode(letter["m"]).options == options
        assert letter["error"] == b"ZeroDivisionError: by nought"


def test_dead_letters_are_dropped_when_their_time_is_over(
    make_broker: MakeBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker = make_broker(dead_message_ttl=1_000)
    old = f"{queue.now_ms() - 2_000}-0"
    for entry in (old, f"{queue.now_ms()}-0"):
        queue.client.xadd(queue.keys.dead, {"m": b"", "reason": b"failed"}, id=entry)

    start_consumer(broker)

    wait_until(lambda: len(queue.dead()) == 1, message="the old one is gone")


@pytest.mark.parametrize("actor", ["nobody", "fails"])
def test_dead_letters_do_not_count_as_messages(
    broker: StreamsBroker, make_worker: MakeWorker, actor: str
) -> None:
    @dramatiq.actor(max_retries=0)
    def fails() -> None:
        raise ZeroDivisionError

    broker.enqueue(new_message(actor=actor))
    make_worker(broker)

    broker.join("default", timeout=5_000)
    broker.join("default", timeout=0)
