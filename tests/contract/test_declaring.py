"""Sections 2 (`declare_queue`, `declare_actor`) and 6 (no delay queue is declared)."""

import logging
import threading
from collections.abc import Callable
from typing import Any

import dramatiq
import pytest
from dramatiq.middleware import Middleware

from dramatiq_streams import InvalidOption, StreamsBroker
from tests.conftest import MakeBroker, MakeWorker
from tests.support.waiting import wait_until

CLOSED = "redis://127.0.0.1:1"


class Signals(Middleware):
    """Notes the signals of declarations, in order."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def before_declare_actor(self, broker, actor) -> None:
        self.seen.append("before actor")

    def after_declare_actor(self, broker, actor) -> None:
        self.seen.append("after actor")

    def before_declare_queue(self, broker, queue_name) -> None:
        assert queue_name not in broker.queues
        self.seen.append(f"before {queue_name}")

    def after_declare_queue(self, broker, queue_name) -> None:
        assert queue_name in broker.get_declared_queues()
        self.seen.append(f"after {queue_name}")

    def after_declare_delay_queue(self, broker, queue_name) -> None:
        self.seen.append(f"delay {queue_name}")


def without_delay_queues(seen: list[str]) -> list[str]:
    return [signal for signal in seen if not signal.startswith("delay ")]


def test_queue_is_declared_once_with_its_signals_in_order(any_broker: dramatiq.Broker) -> None:
    signals = Signals()
    any_broker.add_middleware(signals)

    for _ in range(3):
        any_broker.declare_queue("somewhere")

    assert without_delay_queues(signals.seen) == ["before somewhere", "after somewhere"]


def test_no_delay_queue_is_announced(broker: StreamsBroker) -> None:
    signals = Signals()
    broker.add_middleware(signals)

    broker.declare_queue("somewhere")

    assert signals.seen == ["before somewhere", "after somewhere"]
    assert broker.get_declared_delay_queues() == set()


def test_declaring_an_actor_declares_its_queue_in_between(any_broker: dramatiq.Broker) -> None:
    signals = Signals()
    any_broker.add_middleware(signals)

    dramatiq.actor(actor_name="work", queue_name="somewhere")(lambda: None)

    assert without_delay_queues(signals.seen) == [
        "before actor",
        "before somewhere",
        "after somewhere",
        "after actor",
    ]
    assert any_broker.get_actor("work").queue_name == "somewhere"


def test_declaring_needs_no_server_and_logs_nothing(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker(url=CLOSED)

    with caplog.at_level(logging.WARNING):
        dramatiq.actor(actor_name="work", queue_name="somewhere")(lambda: None)

    assert broker.get_declared_queues() == {"somewhere"}
    assert caplog.records == []


@pytest.mark.parametrize("name", ["a", "_x", "Crawl.fetch-2", "a.b_c", "x" * 200])
def test_names_that_actors_may_have_are_possible(broker: StreamsBroker, name: str) -> None:
    dramatiq.actor(actor_name="work", queue_name=name)(lambda: None)

    broker.enqueue(broker.get_actor("work").message())

    with pytest.raises(dramatiq.errors.QueueJoinTimeout):
        broker.join(name, timeout=1)


@pytest.mark.parametrize("name", ["", "two words", "{tag}", "work.DQ", "work.XQ", None, 7])
def test_impossible_queue_name_is_refused_by_every_call(broker: StreamsBroker, name: Any) -> None:
    calls: list[Callable[[Any], object]] = [broker.declare_queue, broker.consume]

    for call in calls:
        with pytest.raises(InvalidOption, match="queue_name") as caught:
            call(name)
        assert repr(name) in str(caught.value)

    assert broker.get_declared_queues() == set()


def test_actor_names_are_unique(any_broker: dramatiq.Broker) -> None:
    dramatiq.actor(actor_name="work")(lambda: None)

    with pytest.raises(ValueError, match="already registered"):
        dramatiq.actor(actor_name="work")(lambda: None)


def test_unknown_actor_option_is_refused(any_broker: dramatiq.Broker) -> None:
    with pytest.raises(ValueError, match="colour"):
        dramatiq.actor(actor_name="work", colour="blue")(lambda: None)

    assert "work" not in any_broker.actors


def test_options_of_a_message_are_kept_unchecked(any_broker: dramatiq.Broker) -> None:
    actor = dramatiq.actor(actor_name="work")(lambda: None)

    message = actor.send_with_options(colour="blue", nested={"numbers": [1, 2.5, None]})

    assert message.options == {"colour": "blue", "nested": {"numbers": [1, 2.5, None]}}


def test_actor_declared_by_a_running_actor_is_consumed_at_once(
    any_broker: dramatiq.Broker, make_worker: MakeWorker
) -> None:
    threads: list[str] = []

    def late() -> None:
        threads.append(threading.current_thread().name)

    @dramatiq.actor
    def declare() -> None:
        actor = dramatiq.actor(actor_name="late", queue_name="declared-at-run-time")(late)
        actor.send()

    make_worker(any_broker)
    declare.send()

    wait_until(lambda: threads, message="the late actor ran")
    any_broker.join("declared-at-run-time", timeout=5_000)
    assert any_broker.get_declared_queues() >= {"default", "declared-at-run-time"}


def test_one_consumer_thread_per_queue_and_none_for_delays(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    for name in ("first", "second"):
        broker.declare_queue(name)

    worker = make_worker(broker)

    assert set(worker.consumers) == {"first", "second"}
