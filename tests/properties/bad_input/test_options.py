"""Options of wrong types, wherever a caller can give them: a clear error, or a message that runs.

What is accepted is run by a worker: it must not fail there.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import dramatiq
import pytest
from dramatiq.errors import Retry
from dramatiq.message import Message
from dramatiq.middleware import default_middleware
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_streams import InvalidOption, StreamsBroker
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import QueueState
from tests.properties.bad_input.fuzzing import CLEAR, FACTOR, fuzzed, picked, values
from tests.properties.bad_input.test_bodies import FIELDS, IMPOSSIBLE

OURS = {"lane": [7, "urgent", "", [], "HIGH"], "priority": ["urgent", float("nan"), True, [], 1j]}
ETAS = ["soon", True, float("nan"), float("inf"), [1], b"1"]
DELAYS = [-1, float("nan"), float("inf"), 10**400, 10**5000, True, "5", [], 10**13 + 1]
NAMES = [*IMPOSSIBLE, *OURS, "eta", "ttl", "unknown"]
#: Options of messages that an actor may have too.
OF_ACTORS = [n for n in IMPOSSIBLE if n not in ("retries", "pipe_target")]

pytestmark = [
    # The worker's threads use `random` while values are drawn.
    pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning"),
    pytest.mark.timeout(60 * FACTOR),
]


@pytest.fixture
def actor(broker: StreamsBroker) -> dramatiq.Actor[Any, Any]:
    @dramatiq.actor(broker=broker)
    def work(*args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    return work


def _by_enqueue(actor: dramatiq.Actor[Any, Any], options: dict[str, Any], delay: Any) -> None:
    actor.broker.enqueue(actor.message().copy(options=options), delay=delay)


def _by_enqueue_many(actor: dramatiq.Actor[Any, Any], options: dict[str, Any], delay: Any) -> None:
    broker: Any = actor.broker
    broker.enqueue_many([actor.message(), actor.message().copy(options=options)], delay=delay)


def _by_pipeline(actor: dramatiq.Actor[Any, Any], options: dict[str, Any], delay: Any) -> None:
    given = options if delay is None else {**options, "delay": delay}
    dramatiq.pipeline([actor.message(), actor.message().copy(options=given)]).run()


def _by_send(actor: dramatiq.Actor[Any, Any], options: dict[str, Any], delay: Any) -> None:
    actor.send_with_options(**options, delay=delay)


WAYS = [_by_enqueue, _by_enqueue_many, _by_pipeline, _by_send]


@pytest.mark.parametrize("way", WAYS)
def test_wrong_option_of_a_message_is_named_and_nothing_is_sent(
    actor: dramatiq.Actor[Any, Any], queue: QueueState, way: Any
) -> None:
    for name, value in _pairs({**IMPOSSIBLE, **OURS, "eta": ETAS}):
        if way is _by_send and name in ("on_success", "on_failure"):
            continue  # dramatiq refuses it before us
        with pytest.raises(InvalidOption, match=rf"^{name}=.* is not possible: {name} must be "):
            way(actor, {name: value}, None)

    assert queue.count() == 0


@pytest.mark.parametrize("way", WAYS)
def test_wrong_delay_is_named_and_nothing_is_sent(
    actor: dramatiq.Actor[Any, Any], queue: QueueState, way: Any
) -> None:
    for delay in DELAYS:
        with pytest.raises(InvalidOption, match=r"^delay=.*milliseconds, from 0 to 10\*\*13"):
            way(actor, {}, delay)

    assert queue.count() == 0


def test_wrong_option_of_an_actor_is_named_where_it_is_declared(broker: StreamsBroker) -> None:
    for name, value in _pairs({**{name: IMPOSSIBLE[name] for name in OF_ACTORS}, **OURS}):
        options: dict[str, Any] = {name: value}
        with pytest.raises(InvalidOption, match=rf"^{name}=.* is not possible: {name} must be "):
            _declare(broker, options)

    assert broker.actors == {}


def _declare(broker: StreamsBroker, options: dict[str, Any]) -> None:
    dramatiq.actor(actor_name="wrong", broker=broker, **options)(lambda: None)


def _pairs(wrong: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(name, value) for name, values in wrong.items() for value in values]


@pytest.mark.parametrize("name", ["ttl", "delay", "eta", "unknown"])
def test_option_that_nobody_knows_is_refused_of_an_actor_and_means_nothing_in_a_message(
    broker: StreamsBroker, actor: dramatiq.Actor[Any, Any], queue: QueueState, name: str
) -> None:
    options: dict[str, Any] = {name: -1}
    with pytest.raises(ValueError, match=f"actor options are undefined: {name}"):
        _declare(broker, options)

    if name in ("ttl", "unknown"):
        _by_send(actor, {name: "x"}, None)
        assert queue.messages()[0].options == {name: "x"}


@pytest.mark.parametrize("message", [None, 5, "x", b"x", FIELDS, object(), Message])
def test_what_is_no_message_is_not_enqueued(broker: StreamsBroker, message: Any) -> None:
    with pytest.raises(InvalidOption, match=r"message=.* is not possible"):
        broker.enqueue(message)


def test_arguments_that_are_nested_too_deeply_are_refused(
    actor: dramatiq.Actor[Any, Any], queue: QueueState
) -> None:
    value: Any = 0
    for depth in range(2_000):
        value = [value]
        if depth == 490:
            actor.send(value)
        if depth in (510, 985, 1_999):
            with pytest.raises(InvalidOption, match="nested more than 500 deep"):
                actor.send(value)

    assert queue.count() == 1


def test_option_of_middleware_that_is_not_there_is_nobodys_business(
    make_broker: MakeBroker, queue: QueueState
) -> None:
    broker = make_broker(middleware=[])

    broker.enqueue(Message(**{**FIELDS, "options": {"max_retries": "mine"}}))  # type: ignore[arg-type]

    assert queue.count() == 1


fields = st.fixed_dictionaries({name: picked([value]) for name, value in FIELDS.items()}).flatmap(
    lambda good: st.tuples(picked(list(FIELDS)), values).map(
        lambda pair: {**good, "args": (), pair[0]: pair[1]}
    )
)


@pytest.mark.slow
def test_whatever_is_accepted_is_run_or_says_why_it_is_dead(
    make_broker: MakeBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    broker, runs = make_broker(), Counter[str]()

    @dramatiq.actor(broker=broker)
    def work(*args: Any, **kwargs: Any) -> None:
        runs["work"] += 1

    @dramatiq.actor(broker=broker, max_retries=0)
    def fail(*args: Any, **kwargs: Any) -> None:
        runs["fail"] += 1
        raise ZeroDivisionError

    worker = make_worker(broker, threads=2)

    @fuzzed(8, are_shrunk=False)
    @given(
        st.lists(
            st.tuples(
                picked(["options", "arguments", "kwargs", "fields"]),
                picked(["work", "fail"]),
                picked([n for n in NAMES if n not in ("eta", "retries", "max_retries")]),
                values,
                fields,
            ),
            min_size=10,
            max_size=20,
        )
    )
    def check(sendings: list[tuple[str, str, str, Any, dict[str, Any]]]) -> None:
        runs.clear()
        queue.client.delete(queue.keys.dead)
        accepted = sum(_is_sent(broker, sending) for sending in sendings)
        broker.join("default", timeout=20_000)

        letters = queue.dead()
        assert all(thread.is_alive() for thread in [*worker.workers, *worker.consumers.values()])
        unrun = [x for x in letters if x["reason"] == b"actor_not_found" or _is_aged(x)]
        queued = sum(queue.client.xlen(key) for key in queue.keys.lanes)
        elsewhere = _in_other_queues(queue)
        assert runs["work"] + runs["fail"] + len(unrun) + elsewhere == accepted
        assert runs["fail"] == len(letters) - len(unrun)
        assert queued == 0

    check()


def _is_sent(broker: StreamsBroker, sending: tuple[str, str, str, Any, dict[str, Any]]) -> bool:
    """Send it; False when that was refused, clearly."""
    way, actor_name, name, value, given = sending
    actor = broker.get_actor(actor_name)
    try:
        if way == "options":
            actor.send_with_options(**{name: value})
        elif way == "arguments":
            actor.send_with_options(args=(value,), kwargs={"a": value})
        elif way == "kwargs":
            actor.send_with_options(kwargs=value)
        else:
            broker.enqueue(Message(**given))
    except CLEAR as error:
        return not str(error)  # an error without a text counts as sent, and fails
    return True


def _is_aged(letter: dict[str, bytes]) -> bool:
    """A `max_age` may be as short as one likes."""
    return letter["error"] == b"SkipMessage: Message age limit exceeded"


def _in_other_queues(queue: QueueState) -> int:
    """What was sent to a queue of another name waits there; it is counted and removed."""
    tag = queue.keys.tag.rpartition(":")[0].rpartition(":")[0]
    keys = list(queue.client.scan_iter(match=f"{tag}:*:lane:*", count=1_000))
    found = [key.decode() for key in keys if key.decode() not in queue.keys.lanes]
    count = sum(queue.client.xlen(key) for key in found)
    if found:
        queue.client.delete(*found)
    return count


@pytest.mark.parametrize("delay", ["soon", float("nan"), 10**20, [1]])
def test_retry_that_asks_for_an_impossible_delay_makes_a_dead_letter_at_once(
    make_broker: MakeBroker, make_worker: MakeWorker, queue: QueueState, delay: Any
) -> None:
    broker, runs = make_broker(), []

    @dramatiq.actor(broker=broker)
    def work() -> None:
        runs.append(1)
        raise Retry(delay=delay)

    make_worker(broker)
    work.send()

    broker.join("default", timeout=10_000)
    [letter] = queue.dead()
    assert letter["error"].startswith(b"InvalidOption: delay=")
    assert (runs, letter["deliveries"]) == ([1], b"1")


@pytest.mark.parametrize(
    "options", [{"lane": 7}, {"delay": "x"}, {"max_retries": "x"}, {"eta": "soon"}], ids=str
)
def test_next_step_that_never_can_be_sent_makes_a_dead_letter_at_once(
    make_broker: MakeBroker, make_worker: MakeWorker, queue: QueueState, options: dict[str, Any]
) -> None:
    broker, runs = make_broker(), []

    @dramatiq.actor(broker=broker)
    def work(*args: Any) -> None:
        runs.append(1)

    make_worker(broker)
    step = {**FIELDS, "options": options}
    queue.add_raw({"m": Message(**{**FIELDS, "options": {"pipe_target": step}}).encode()})  # type: ignore[arg-type]

    broker.join("default", timeout=10_000)
    [letter] = queue.dead()
    assert letter["error"].startswith((b"InvalidOption: ", b"UnknownLane: "))
    assert (runs, letter["deliveries"]) == ([1], b"1")


def test_options_that_dramatiqs_middleware_has_are_all_looked_at(broker: StreamsBroker) -> None:
    known: set[str] = set().union(*(make().actor_options for make in default_middleware))
    anything = {"pipe_ignore", "notify_shutdown", "retry_when", "throws"}

    assert known - anything <= set(IMPOSSIBLE)
