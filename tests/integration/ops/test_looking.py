"""Stats, workers and messages: what is shown is what is there."""

import os
import threading
import time
from itertools import chain
from types import SimpleNamespace
from typing import Any

import dramatiq
import pytest

from dramatiq_streams import StreamsBroker
from dramatiq_streams.cli import stats as stats_command
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import new_message
from tests.integration.ops.conftest import RunCommand
from tests.support.waiting import wait_until


def queue_stats(run: RunCommand) -> Any:
    [stats] = run("stats", "--json").json["queues"]
    return stats


def test_stats_count_what_waits_runs_is_delayed_and_is_dead(
    broker: StreamsBroker, make_worker: MakeWorker, run: RunCommand
) -> None:
    started, proceed = threading.Event(), threading.Event()

    @dramatiq.actor(actor_name="work", max_retries=0)
    def work(name: str) -> None:
        if name == "bad":
            raise ZeroDivisionError
        started.set()
        proceed.wait(20)

    worker = make_worker(broker, threads=1)
    work.send("bad")
    broker.join("default", timeout=5_000)
    work.send("first")
    assert started.wait(5)
    work.send_with_options(args=("later",), delay=60_000)

    stats = queue_stats(run)
    proceed.set()
    broker.flush("default")
    worker.stop()

    assert (stats["ready"], stats["pending"], stats["delayed"], stats["dead"]) == (0, 1, 1, 1)
    assert stats["consumers"] == 1
    assert 50_000 < stats["next_due_ms"] <= 60_000
    [lane] = [lane for lane in stats["lanes"] if lane["pending"]]
    assert lane["lane"] == "default"
    assert 0 <= lane["oldest_pending_age_ms"] < 20_000


def test_stats_of_lanes_are_told_apart(broker: StreamsBroker, run: RunCommand) -> None:
    for lane in ("high", "low", "low"):
        broker.enqueue(new_message(lane=lane))

    stats = queue_stats(run)

    assert {lane["lane"]: lane["ready"] for lane in stats["lanes"]} == {
        "high": 1,
        "default": 0,
        "low": 2,
    }
    assert stats["paused_for_ms"] is None
    table = run("stats").out.splitlines()
    assert [line.split()[:2] for line in table[1:]] == [
        ["default", "all"],
        ["high", "1"],
        ["default", "0"],
        ["low", "2"],
    ]


def test_lanes_are_those_that_the_broker_has_registered(
    make_broker: MakeBroker, run: RunCommand
) -> None:
    make_broker(lanes=["urgent", "bulk"]).enqueue(new_message(lane="bulk"))

    stats = queue_stats(run)

    assert [(lane["lane"], lane["ready"]) for lane in stats["lanes"]] == [
        ("urgent", 0),
        ("bulk", 1),
    ]


def test_throughput_is_what_was_delivered_in_the_interval(
    broker: StreamsBroker,
    make_worker: MakeWorker,
    run: RunCommand,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dramatiq.actor(actor_name="work")(lambda: None)
    broker.enqueue_many([new_message() for _ in range(50)])

    def work_and_sleep(seconds: float) -> None:
        ends = time.monotonic() + seconds
        make_worker(broker)
        broker.join("default", timeout=10_000)
        wait_until(lambda: time.monotonic() > ends)

    monkeypatch.setattr(stats_command, "time", SimpleNamespace(sleep=work_and_sleep))
    started = time.monotonic()
    [seen] = run("stats", "--json", "--interval", "0.5").json["queues"]
    took = time.monotonic() - started

    assert seen["ready_per_s"] < 0
    if seen["delivered_per_s"] is not None:  # Redis 6.2 does not count
        assert 50 / took <= seen["delivered_per_s"] <= 50 / 0.49
        assert seen["delivered"] == 50


def test_workers_are_shown_with_host_and_pid(
    broker: StreamsBroker, make_worker: MakeWorker, run: RunCommand
) -> None:
    make_worker(broker)
    broker.declare_queue("default")
    wait_until(lambda: run("workers", "--json").json["workers"])

    [worker] = run("workers", "--json").json["workers"]

    assert worker["pid"] == os.getpid()
    assert worker["queue"] == "default"
    assert worker["is_alive"] is True
    assert worker["heartbeat_age_ms"] < 20_000


def test_messages_are_listed_in_their_order_page_by_page(
    broker: StreamsBroker, run: RunCommand
) -> None:
    sent = [
        broker.enqueue(new_message(n, lane=lane)).message_id
        for lane in ("high", "low")
        for n in range(4)
    ]

    pages, cursor = [], ""
    while cursor is not None:
        page = run("messages", "ls", "--json", "--limit", "3", "--after", cursor).json
        pages.append([message["message_id"] for message in page["messages"]])
        cursor = page["next"]

    assert [len(page) for page in pages] == [3, 3, 2]
    assert list(chain.from_iterable(pages)) == sent


def test_delayed_messages_are_listed_by_their_eta_page_by_page(
    broker: StreamsBroker, run: RunCommand
) -> None:
    for number in (3, 1, 2):
        broker.enqueue(new_message(number), delay=number * 60_000)

    first = run("messages", "ls", "--state", "delayed", "--limit", "2", "--json").json
    second = run("messages", "ls", "--state", "delayed", "--after", first["next"], "--json").json

    found = [message["args"] for message in first["messages"] + second["messages"]]
    assert found == [[1], [2], [3]]
    assert second["next"] is None


def test_held_messages_are_listed_with_their_worker_and_given_back_ones_are_ready(
    broker: StreamsBroker, run: RunCommand
) -> None:
    for number in (1, 2):
        broker.enqueue(new_message(number))
    consumer = broker.consume("default", prefetch=2, timeout=2_000)
    first, second = next(consumer), next(consumer)
    assert first is not None
    assert second is not None
    consumer.requeue([first])

    pending = run("messages", "ls", "--state", "pending", "--json").json["messages"]
    ready = run("messages", "ls", "--json").json["messages"]

    consumer.requeue([second])
    consumer.close()
    assert [(m["args"], m["deliveries"]) for m in pending] == [([2], 1)]
    assert str(os.getpid()) in pending[0]["consumer"]
    assert [m["args"] for m in ready] == [[1]]


def test_message_is_shown_wherever_it_is(broker: StreamsBroker, run: RunCommand) -> None:
    waiting = broker.enqueue(new_message("waiting", lane="low"))
    delayed = broker.enqueue(new_message("delayed"), delay=60_000)

    result = run("messages", "show", waiting.message_id, delayed.message_id, "nothing", "--json")

    assert result.code == 1
    assert [m["state"] for m in result.json["messages"]] == ["ready", "delayed"]
    assert result.json["missing"] == ["nothing"]


def test_fields_have_the_same_names_when_nothing_is_in_them(
    broker: StreamsBroker, run: RunCommand
) -> None:
    waiting = broker.enqueue(new_message("waiting"))
    delayed = broker.enqueue(new_message("delayed"), delay=60_000)

    names = [
        [
            line.partition(":")[0]
            for line in run("messages", "show", message.message_id).out.split("\n")
        ]
        for message in (waiting, delayed)
    ]

    assert names[0] == names[1]
    assert "due_in" in names[0]
    assert [name for name in names[0] if name.endswith("_ms")] == []


def test_queue_of_several_has_to_be_named_for_a_list(
    broker: StreamsBroker, run: RunCommand
) -> None:
    broker.enqueue(new_message(queue="one"))
    broker.enqueue(new_message(queue="two"))

    result = run("messages", "ls")

    assert result.code == 2
    assert "'one', 'two'" in result.error
    assert len(run("messages", "ls", "--queue", "two", "--json").json["messages"]) == 1


def test_queue_that_was_never_used_is_refused_unless_its_lanes_are_given(
    broker: StreamsBroker, run: RunCommand
) -> None:
    broker.enqueue(new_message())

    unknown = run("stats", "--queue", "defualt")
    told = run("stats", "--queue", "defualt", "--lanes", "high,low", "--json")

    assert unknown.code == 2
    assert "'default'" in unknown.error
    assert told.code == 0
    assert told.json["queues"][0]["ready"] == 0
