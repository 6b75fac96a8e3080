"""Section 2: the delay of `enqueue` and the option `eta`."""

import datetime as dt
import time
from typing import Any

import dramatiq
import pytest
from dramatiq.middleware import Middleware

from dramatiq_streams import InvalidOption, StreamsBroker
from tests.contract.conftest import StartConsumer
from tests.contract.queue_state import QueueState, new_message

#: How far this machine's clock and the server's reading of it may lie apart in one call.
SLACK_MS = 2_000


def short(value: object) -> str:
    """A parameter as a test's id."""
    return str(value)[:12]


@pytest.mark.parametrize("delay", [0, 1, 0.2, 12_345.4, 10**9, 10**13])
def test_delay_is_kept_on_the_servers_clock_and_named_in_option_eta(
    broker: StreamsBroker, queue: QueueState, delay: float
) -> None:
    server_ms, own_ms = queue.now_ms(), time.time() * 1000

    enqueued = broker.enqueue(new_message(1), delay=delay)  # type: ignore[arg-type]

    [(eta, stored)] = queue.delayed()
    assert delay <= eta - server_ms <= delay + SLACK_MS
    assert delay - 1 <= enqueued.options["eta"] - own_ms <= delay + SLACK_MS
    assert "eta" not in stored.options


@pytest.mark.parametrize("delay", [0, 0.0])
def test_zero_is_a_delay_and_due_at_once(
    broker: StreamsBroker, start_consumer: StartConsumer, delay: float
) -> None:
    enqueued = broker.enqueue(new_message(1), delay=delay)  # type: ignore[arg-type]

    assert "eta" in enqueued.options
    delivered = next(start_consumer(broker))
    assert delivered is not None
    assert delivered.message_id == enqueued.message_id


@pytest.mark.parametrize(
    "delay",
    [
        -1,
        -0.5,
        True,
        False,
        "5000",
        b"1",
        float("nan"),
        float("inf"),
        float("-inf"),
        10**13 + 1,
        10**400,
        -(10**400),
        dt.timedelta(seconds=1),
        [1],
    ],
    ids=short,
)
def test_impossible_delay_is_refused_and_nothing_written(
    broker: StreamsBroker, queue: QueueState, delay: Any
) -> None:
    seen: list[object] = []

    class Signals(Middleware):
        def before_enqueue(self, broker, message, delay) -> None:
            seen.append(message)

    broker.add_middleware(Signals())

    with pytest.raises(InvalidOption, match=r"delay=.*milliseconds, from 0"):
        broker.enqueue(new_message(1), delay=delay)

    assert queue.count() == 0
    assert seen == []


def test_timedelta_of_an_actor_is_a_delay(broker: StreamsBroker, queue: QueueState) -> None:
    actor = dramatiq.actor(actor_name="work")(lambda: None)
    now = queue.now_ms()

    actor.send_with_options(delay=dt.timedelta(minutes=2))

    [(eta, _)] = queue.delayed()
    assert 120_000 <= eta - now <= 120_000 + SLACK_MS


def test_option_eta_without_a_delay_is_honoured(broker: StreamsBroker, queue: QueueState) -> None:
    now = queue.now_ms()

    broker.enqueue(new_message(1, eta=int(time.time() * 1000) + 60_000))

    [(eta, _)] = queue.delayed()
    assert 59_000 <= eta - now <= 60_000 + SLACK_MS


@pytest.mark.parametrize("eta", [None, 10**400], ids=short)
def test_option_eta_may_be_none_and_as_late_as_one_likes(
    broker: StreamsBroker, queue: QueueState, eta: Any
) -> None:
    message = broker.enqueue(new_message(1, eta=eta))

    assert queue.count() == 1
    assert ("eta" in message.options) == bool(queue.delayed())


@pytest.mark.parametrize("eta", ["soon", True, float("nan")], ids=short)
def test_option_eta_that_is_no_instant_is_refused(
    broker: StreamsBroker, queue: QueueState, eta: Any
) -> None:
    with pytest.raises(InvalidOption, match="eta must be milliseconds since 1970, or None"):
        broker.enqueue(new_message(1, eta=eta))

    assert queue.count() == 0


def test_delay_wins_over_option_eta(broker: StreamsBroker, queue: QueueState) -> None:
    now = queue.now_ms()

    broker.enqueue(new_message(1, eta=int(time.time() * 1000) + 60_000), delay=5_000)

    [(eta, _)] = queue.delayed()
    assert 5_000 <= eta - now <= 5_000 + SLACK_MS
