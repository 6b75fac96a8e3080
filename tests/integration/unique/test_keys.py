"""Which key a message has: of its arguments as they arrive, or the one that it is given."""

import enum
import functools
from typing import Any

import dramatiq
import pytest
from dramatiq.middleware import AgeLimit

from dramatiq_streams import InvalidOption, StreamsBroker
from dramatiq_streams.middleware import Idempotency
from tests.conftest import MakeWorker
from tests.contract.queue_state import QueueState
from tests.integration.unique.conftest import Actor, MakeActor, UniqueKeys


class Colour(str, enum.Enum):  # noqa: UP042 - its form in a template is another one
    """Travels as its text."""

    RED = "red"


@pytest.mark.parametrize(
    ("option", "one", "other"),
    [
        ("{number}", (1, 2), [1, 2]),
        ("{number}", Colour.RED, "red"),
        ("{number}", {1: "a"}, {"1": "a"}),
        ("{number[0]}", ((1, 2), 3), [[1, 2], 3]),
        (repr, (1, 2), [1, 2]),
        (True, (1, 2), [1, 2]),
        (None, (1, 2), [1, 2]),
    ],
)
def test_key_is_that_of_the_arguments_as_they_arrive(
    make_actor: MakeActor, unique_keys: UniqueKeys, option: object, one: object, other: object
) -> None:
    work = make_actor(unique_key=option)

    first, second = work.send(one), work.send(other)

    assert second.message_id == first.message_id
    assert list(unique_keys.held().values()) == [first.message_id]


def test_key_that_a_message_has_by_itself_is_as_it_arrives(
    work: Actor, unique_keys: UniqueKeys
) -> None:
    for own in (Colour.RED, "red"):
        work.send_with_options(args=(1,), unique_key=own)

    assert unique_keys.held().keys() == {"work:red"}


def test_argument_that_a_decorator_adds_unseen_is_told_of_when_sent(make_actor: MakeActor) -> None:
    def adds_session(fn: Any) -> Any:
        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            return fn("session", *args, **kwargs)

        return run

    def index(session: str, number: int) -> None:
        """Do nothing."""

    work = make_actor(adds_session(index), unique_key="{number}")

    with pytest.raises(InvalidOption, match=r"missing .* 'number'\. If a decorator adds"):
        work.send(1)


def test_unique_key_comes_before_the_idempotency_key(
    broker: StreamsBroker, make_actor: MakeActor, unique_keys: UniqueKeys
) -> None:
    broker.add_middleware(Idempotency(), before=AgeLimit)
    work = make_actor(
        lambda number, reason: None, unique_key="u{number}", idempotency_key="{number}-{reason}"
    )

    work.send(1, "a")
    work.send(1, "b")
    work.send_with_options(args=(1, "c"), idempotency_key="not this one")
    work.send_with_options(args=(1, "d"), unique_key="mine")
    work.send_with_options(args=(1, "e"), unique_key=True)

    held = unique_keys.held().keys()
    assert {"work:u1", "work:mine"} < held
    assert len(held) == 3


def test_actor_with_a_unique_key_alone_is_none_of_idempotencys(
    broker: StreamsBroker, make_actor: MakeActor, make_worker: MakeWorker
) -> None:
    broker.add_middleware(Idempotency(), before=AgeLimit)
    ran: list[str] = []
    work = make_actor(lambda page, reason="": ran.append(reason), unique_key="{page}")
    make_worker(broker)

    for reason in ("saved", "saved again"):
        work.send("prices", reason)
        broker.join("default", timeout=10_000)

    assert ran == ["saved", "saved again"]


@pytest.mark.parametrize("key", ["{nowhere}", "", 7, False, lambda: "x"])
def test_wrong_unique_key_is_refused_when_declared(make_actor: MakeActor, key: object) -> None:
    with pytest.raises(InvalidOption, match=r"unique_key=.* of actor 'work' is not possible"):
        make_actor(lambda number: None, unique_key=key)


def test_unique_key_that_nothing_makes_use_of_is_refused(broker: StreamsBroker) -> None:
    told = "unique_key, and nothing makes use of it"
    work = dramatiq.actor(actor_name="work", broker=broker)(lambda number: None)

    with pytest.raises(InvalidOption, match=told):
        dramatiq.actor(actor_name="wrong", broker=broker, unique_key="{number}")(lambda number: 0)
    with pytest.raises(InvalidOption, match=told):
        work.send_with_options(args=(1,), unique_key="one")


def test_idempotency_key_beside_a_unique_key_needs_idempotency(make_actor: MakeActor) -> None:
    with pytest.raises(InvalidOption, match="idempotency_key, and nothing makes use of it"):
        make_actor(lambda number: None, unique_key="{number}", idempotency_key="{number}")


def test_idempotency_key_that_is_off_leaves_all_arguments(
    broker: StreamsBroker, make_actor: MakeActor, queue: QueueState
) -> None:
    broker.add_middleware(Idempotency(), before=AgeLimit)
    work = make_actor(lambda number: None, idempotency_key=False)

    for number in (1, 1, 2):
        work.send(number)

    assert queue.count() == 2
