"""Priorities and lanes: where a message goes, and what a worker gets first."""

import itertools
import threading
from typing import Any

import dramatiq
import pytest

from dramatiq_streams import InvalidOption, StreamsBroker, UnknownLane
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import QueueState, new_message
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    ("actor_options", "message_options", "lane"),
    [
        ({}, {}, "default"),
        ({"priority": -1}, {}, "high"),
        ({"priority": -1_000}, {}, "high"),
        ({"priority": 0}, {}, "default"),
        ({"priority": 1}, {}, "low"),
        ({"priority": 1_000}, {}, "low"),
        ({"lane": "high"}, {}, "high"),
        ({"lane": "low", "priority": -5}, {}, "low"),
        ({}, {"lane": "low"}, "low"),
        ({"lane": "high"}, {"lane": "low"}, "low"),
        ({"lane": "high"}, {"lane": None}, "high"),
        ({"priority": 1}, {"priority": -1}, "high"),
        ({"lane": None, "priority": 1}, {}, "low"),
    ],
    ids=str,
)
def test_message_goes_to_the_lane_that_message_actor_or_priority_names(
    broker: StreamsBroker,
    queue: QueueState,
    actor_options: dict[str, Any],
    message_options: dict[str, Any],
    lane: str,
) -> None:
    actor = dramatiq.actor(actor_name="work", **actor_options)(lambda: None)

    sent = actor.send_with_options(**message_options)

    assert queue.entries(lane) == [sent]
    assert queue.count() == 1


def test_delayed_message_and_retry_keep_their_lane(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    lanes: list[list[str]] = []

    @dramatiq.actor(lane="low", max_retries=1, min_backoff=1)
    def work() -> None:
        lanes.append([name for name in ("high", "default", "low") if queue.entries(name)])
        raise ZeroDivisionError

    work.send_with_options(delay=10)
    make_worker(broker)
    broker.join("default", timeout=5_000)

    assert lanes == [["low"], ["low"]]
    assert queue.dead()[0]["lane"] == b"low"


def test_unknown_lane_of_an_actor_fails_at_its_declaration(broker: StreamsBroker) -> None:
    with pytest.raises(UnknownLane, match=r"'fast'.*'high', 'default', 'low'"):
        dramatiq.actor(actor_name="work", lane="fast")(lambda: None)

    assert "work" not in broker.actors


@pytest.mark.parametrize("delay", [None, 1_000])
@pytest.mark.parametrize("lane", ["fast", "", 1, ["high"]])
def test_unknown_lane_of_a_message_fails_when_it_is_sent(
    broker: StreamsBroker, queue: QueueState, lane: Any, delay: int | None
) -> None:
    actor = dramatiq.actor(actor_name="work")(lambda: None)

    with pytest.raises(UnknownLane, match="lane="):
        actor.send_with_options(lane=lane, delay=delay)
    with pytest.raises(UnknownLane, match="lane="):
        broker.enqueue_many([actor.message(), actor.message_with_options(lane=lane)])

    assert queue.count() == 0


@pytest.mark.parametrize("priority", ["high", True])
def test_priority_that_is_no_number_fails_when_it_is_sent(
    broker: StreamsBroker, priority: Any
) -> None:
    actor = dramatiq.actor(actor_name="work")(lambda: None)

    with pytest.raises(InvalidOption, match="priority"):
        actor.send_with_options(priority=priority)


def read_all(broker: StreamsBroker, count: int, *, prefetch: int) -> list[str]:
    """The lanes of the first *count* messages, acknowledged as they come."""
    consumer = broker.consume("default", prefetch=prefetch, timeout=2_000)
    lanes = []
    for _ in range(count):
        message = next(consumer)
        assert message is not None
        lanes.append(message.options["lane"])
        consumer.ack(message)
    consumer.close()
    return lanes


@pytest.mark.parametrize("prefetch", [1, 4, 16])
def test_higher_lanes_are_read_first(broker: StreamsBroker, prefetch: int) -> None:
    for lane in ("low", "default", "high"):
        broker.enqueue_many([new_message(lane=lane) for _ in range(3)])

    lanes = read_all(broker, 9, prefetch=prefetch)

    assert lanes[0] == "high"
    # The guaranteed shares let single messages of lower lanes pass.
    assert sum(i for i, lane in enumerate(lanes) if lane == "high") <= 12
    assert sorted(lanes) == ["default"] * 3 + ["high"] * 3 + ["low"] * 3


@pytest.mark.parametrize("prefetch", [1, 8, 32])
def test_flood_of_high_messages_leaves_lower_lanes_their_share(
    broker: StreamsBroker, prefetch: int
) -> None:
    for lane in ("high", "default", "low"):
        broker.enqueue_many([new_message(lane=lane) for _ in range(400)])

    lanes = read_all(broker, 400, prefetch=prefetch)

    # 20 and 5 percent, give or take one budget.
    assert 80 - prefetch <= lanes.count("default") <= 80 + prefetch
    assert 20 - prefetch <= lanes.count("low") <= 20 + prefetch
    assert "low" in lanes


def test_reads_that_only_acknowledge_leave_lower_lanes_their_share(
    broker: StreamsBroker,
) -> None:
    for lane in ("high", "default", "low"):
        broker.enqueue_many([new_message(lane=lane) for _ in range(400)])
    consumer = broker.consume("default", prefetch=7, timeout=1_000)
    lanes: list[str] = []

    for message in itertools.islice(filter(None, consumer), 399):
        with consumer._holdings.carrying():
            consumer.ack(message)
        lanes.append(("high", "default", "low")[message.entry.lane - 1])
        consumer._fetcher._read(0)
    consumer.close()

    assert lanes.count("default") == pytest.approx(80, abs=2)
    assert lanes.count("low") == pytest.approx(20, abs=2)


def test_lanes_of_the_users_choice(make_broker: MakeBroker) -> None:
    broker = make_broker(lanes={"urgent": 0, "normal": 10, "bulk": 30, "idle": 1})
    for lane in ("idle", "bulk", "normal", "urgent"):
        broker.enqueue_many([new_message(lane=lane) for _ in range(200)])

    lanes = read_all(broker, 200, prefetch=10)

    assert 50 <= lanes.count("bulk") <= 70
    assert 10 <= lanes.count("normal") <= 30
    assert lanes.count("idle") >= 1


def test_single_lane_takes_every_priority(make_broker: MakeBroker, namespace: str) -> None:
    broker = make_broker(lanes=["only"])
    for priority in (-5, 0, 5):
        broker.enqueue(new_message(priority=priority))

    consumer = broker.consume("default", prefetch=3, timeout=1_000)
    read = [
        message.options["priority"] for message in (next(consumer) for _ in range(3)) if message
    ]
    consumer.close()

    assert read == [-5, 0, 5]


def test_high_message_overtakes_a_backlog(broker: StreamsBroker, make_worker: MakeWorker) -> None:
    order: list[str] = []
    proceed = threading.Event()

    @dramatiq.actor
    def work(name: str) -> None:
        order.append(name)
        proceed.wait(20)

    broker.enqueue_many([work.message("backlog") for _ in range(50)])
    make_worker(broker, threads=1)
    wait_until(lambda: order)

    work.send_with_options(args=("urgent",), lane="high")
    proceed.set()
    broker.join("default", timeout=10_000)

    # Two messages are prefetched for the one thread.
    assert order.index("urgent") <= 3
