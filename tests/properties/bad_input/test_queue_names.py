"""Names of queues and namespaces: possible everywhere, or refused everywhere in the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dramatiq
import pytest
from dramatiq.message import Message
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_streams import InvalidOption, StreamsBroker
from tests.conftest import MakeBroker
from tests.contract.queue_state import QueueState
from tests.properties.bad_input.fuzzing import CLEAR, FACTOR, fuzzed, picked, values

pytestmark = [
    # The broker's threads use `random` while values are drawn.
    pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning"),
    pytest.mark.timeout(60 * FACTOR),
]

IMPOSSIBLE = [
    *("", " ", "a b", "a\nb", "a\tb", "{a}", "a}", "a:b", "\0", "\ud800", "x" * 256, "mail.DQ.DQ"),
    *(None, 5, 1.5, b"mail", [], ["mail"], {}, object()),
]
#: With a suffix of dramatiq's, a name means the queue itself.
SUFFIXED = ["mail.DQ", "mail.XQ"]
POSSIBLE = [
    "mail",
    "é",
    "日本",
    "a.b-c_d",
    "x" * 255,
    "%",
    "*",
    "?",
    "[a]",
    "\\",
    "\U0001f4ec",
    "'",
]

names = st.one_of(picked(IMPOSSIBLE), picked(POSSIBLE), picked(SUFFIXED), st.text(), values)


def _enqueue(broker: StreamsBroker, name: Any) -> None:
    broker.enqueue(Message(name, "work", (), {}, {}))


def _consume(broker: StreamsBroker, name: Any) -> None:
    broker.consume(name).close()


def _join(broker: StreamsBroker, name: Any) -> None:
    broker.join(name, timeout=0)


def _declare(broker: StreamsBroker, **names: Any) -> None:
    dramatiq.actor(broker=broker, **names)(lambda: None)


CALLS: list[Callable[[StreamsBroker, Any], object]] = [
    _enqueue,
    _consume,
    _join,
    StreamsBroker.declare_queue,
    StreamsBroker.flush,
]


@pytest.mark.parametrize("call", CALLS)
def test_impossible_name_is_refused_before_anything_is_sent(
    broker: StreamsBroker, call: Callable[[StreamsBroker, Any], object]
) -> None:
    for name in IMPOSSIBLE:
        with pytest.raises(InvalidOption, match="queue_name"):
            call(broker, name)

    assert broker.queues == {}


def test_possible_name_is_one_of_a_queue_that_works(broker: StreamsBroker, namespace: str) -> None:
    for name in POSSIBLE:
        broker.declare_queue(name)
        broker.enqueue(Message(name, "work", (), {}, {}))
        consumer = broker.consume(name, timeout=2_000)
        message = next(consumer)
        assert message is not None
        consumer.ack(message)
        consumer.close()
        broker.join(name, timeout=5_000)
        broker.flush(name)


def test_name_with_a_suffix_is_that_of_the_queue_but_cannot_be_declared(
    broker: StreamsBroker, redis_client: Any, namespace: str
) -> None:
    for name in SUFFIXED:
        _enqueue(broker, name)
        with pytest.raises(InvalidOption, match=r"does not end in \.DQ or \.XQ"):
            broker.declare_queue(name)
        with pytest.raises(InvalidOption, match=r"does not end in \.DQ or \.XQ"):
            broker.consume(name)

    assert QueueState(redis_client, namespace, "mail").count() == 2


def test_actor_of_an_impossible_queue_is_not_declared(broker: StreamsBroker) -> None:
    for name in [*IMPOSSIBLE, *SUFFIXED]:
        with pytest.raises((ValueError, TypeError)):
            _declare(broker, actor_name="wrong", queue_name=name)

    assert (broker.actors, broker.queues) == ({}, {})


@pytest.mark.parametrize("name", [5, "\ud800", b"x", ["x"], ("x",)])
def test_impossible_name_of_an_actor_is_refused(broker: StreamsBroker, name: Any) -> None:
    with pytest.raises((InvalidOption, TypeError)):
        _declare(broker, actor_name=name)

    assert broker.actors == {}


def test_any_name_is_refused_clearly_or_works(broker: StreamsBroker) -> None:
    @fuzzed(40)
    @given(names, picked(CALLS))
    def check(name: Any, call: Callable[[StreamsBroker, Any], object]) -> None:
        try:
            call(broker, name)
        except CLEAR as error:
            assert "queue_name" in str(error)  # noqa: PT017 - it is what the error says
        except dramatiq.errors.QueueJoinTimeout:
            assert call is _join

    check()


IMPOSSIBLE_TIMES: list[tuple[str, Any]] = [
    *zip(["interval"] * 7, [0, -1, "x", None, float("nan"), True, 10**400], strict=True),
    *zip(["timeout"] * 5, ["x", float("nan"), [], True, b"1"], strict=True),
]


def test_impossible_time_to_join_is_named(broker: StreamsBroker) -> None:
    for name, value in IMPOSSIBLE_TIMES:
        times: dict[str, Any] = {name: value}
        with pytest.raises(InvalidOption, match=f"{name}=.* is not possible: {name} must be "):
            broker.join("default", **times)


def test_any_namespace_is_refused_at_the_start_or_works(make_broker: MakeBroker) -> None:
    # Only the constructor: what is possible leaves no key that this test could clean up.
    @fuzzed(60)
    @given(st.text(max_size=200) | values)
    def check(name: Any) -> None:
        try:
            made = StreamsBroker(namespace=name)
        except InvalidOption as error:
            assert "namespace=" in str(error)  # noqa: PT017 - it is what the error says
        else:
            assert made.namespace.encode()
            assert not set(made.namespace) & set("{} \n\t\0")

    check()
