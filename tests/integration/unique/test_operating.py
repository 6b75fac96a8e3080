"""What frees a key, and has it again, when operators redrive, cancel or purge."""

from collections.abc import Iterator
from typing import Any

import pytest

from dramatiq_streams import StreamsBroker
from dramatiq_streams.browsing import Browsing, State
from dramatiq_streams.cancellations import Cancellations, Outcome
from dramatiq_streams.dead_letters import DeadLetters, Redrive
from dramatiq_streams.dead_letters import Outcome as RedriveOutcome
from dramatiq_streams.executor import Executor
from dramatiq_streams.lanes import DEFAULT_LANES, Lanes
from dramatiq_streams.letters import LetterFilter
from dramatiq_streams.lifetimes import Lifetimes
from dramatiq_streams.scope import Scope
from tests.conftest import MakeWorker
from tests.contract.queue_state import QueueState
from tests.integration.unique.conftest import MakeActor, UniqueKeys
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000


@pytest.fixture
def executor(broker: StreamsBroker) -> Iterator[Executor]:
    """A connection of an operator."""
    made = Executor(broker.client.connection_pool)
    yield made
    made.close()


@pytest.fixture
def scope(namespace: str) -> Scope:
    """What an operator looks at."""
    return Scope(namespace, Lanes.of(DEFAULT_LANES), "operator")


def test_dead_letter_frees_the_key_and_redriven_it_has_it_again(
    *,
    make_actor: MakeActor,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    queue: QueueState,
    unique_keys: UniqueKeys,
    executor: Executor,
    scope: Scope,
) -> None:
    def fail(number: int) -> None:
        raise ZeroDivisionError

    work = make_actor(fail, max_retries=0)
    first = work.send(1)
    worker = make_worker(broker)
    wait_until(queue.dead, message="the message is dead")
    worker.stop()
    dead = DeadLetters(executor, scope, lifetimes=Lifetimes())
    [letter] = dead.letters("default", LetterFilter())
    assert unique_keys.held() == {}

    done = dead.redrive(letter)
    again = work.send(1)

    assert done == Redrive(RedriveOutcome.SENT)
    assert again.message_id == first.message_id
    assert queue.count() == 1


@pytest.mark.parametrize("until", ["started", "done"])
def test_letter_stays_while_another_message_has_its_key(
    *,
    make_actor: MakeActor,
    broker: StreamsBroker,
    make_worker: MakeWorker,
    queue: QueueState,
    executor: Executor,
    scope: Scope,
    until: str,
) -> None:
    def fail(number: int) -> None:
        raise ZeroDivisionError

    work = make_actor(fail, max_retries=1, min_backoff=1, max_backoff=1, unique_until=until)
    work.send(1)
    worker = make_worker(broker)
    wait_until(queue.dead, message="the message is dead")
    worker.stop()
    successor = work.send(1)
    dead = DeadLetters(executor, scope, lifetimes=Lifetimes())
    [letter] = dead.letters("default", LetterFilter())

    done = dead.redrive(letter)

    assert done == Redrive(RedriveOutcome.HELD, successor.message_id)
    assert len(queue.dead()) == 1
    assert queue.count() == 1


@pytest.mark.parametrize(
    ("options", "state"), [({}, State.READY), ({"delay": HOUR_MS}, State.DELAYED)]
)
def test_cancelled_message_frees_its_key(
    *,
    make_actor: MakeActor,
    executor: Executor,
    scope: Scope,
    unique_keys: UniqueKeys,
    options: dict[str, Any],
    state: State,
) -> None:
    work = make_actor()
    first = work.send_with_options(args=(1,), **options)
    browsing = Browsing(executor, scope)
    cancellations = Cancellations(executor, scope, browsing)
    [found] = cancellations.search(["default"], first.message_id, limit=10).found

    cancelled = cancellations.cancel(found)

    assert cancelled is not None
    assert (found.state, cancelled.outcome) == (state, Outcome.CANCELLED)
    assert work.send(1).message_id != first.message_id


def test_purge_frees_all_keys(
    make_actor: MakeActor, broker: StreamsBroker, unique_keys: UniqueKeys
) -> None:
    work = make_actor()
    first = work.send(1)

    broker.flush("default")

    assert unique_keys.held() == {}
    assert work.send(1).message_id != first.message_id
