"""A duplicate in a group or a pipeline: dramatiq waits for it, unless it has a key of its own."""

from typing import Any

import dramatiq
import pytest
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import StubBackend as RateLimiterStubBackend

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeWorker
from tests.integration.unique.conftest import MakeActor
from tests.support.waiting import wait_until


@pytest.fixture
def ran() -> list[Any]:
    """What the actors were called with."""
    return []


@pytest.fixture
def work(broker: StreamsBroker, make_actor: MakeActor, ran: list[Any]) -> Any:
    """An actor that is unique by its number, on a broker that calls back for groups."""
    broker.add_middleware(GroupCallbacks(RateLimiterStubBackend()))
    return make_actor(lambda number, _=None: ran.append(number), unique_key="{number}")


@pytest.fixture
def after(broker: StreamsBroker, ran: list[Any]) -> Any:
    """What is to come behind it."""
    return dramatiq.actor(actor_name="after", broker=broker)(lambda _=None: ran.append("after"))


@pytest.mark.parametrize(("own", "calls"), [({}, 0), ({"unique_key": "of the group"}, 1)])
def test_group_with_a_duplicate_calls_back_only_if_it_has_a_key_of_its_own(
    broker: StreamsBroker,
    work: Any,
    after: Any,
    make_worker: MakeWorker,
    *,
    ran: list[Any],
    own: dict[str, Any],
    calls: int,
) -> None:
    work.send(1)
    group = dramatiq.group(
        [work.message_with_options(args=(1,), **own), work.message(2)], broker=broker
    )
    group.add_completion_callback(after.message())
    group.run()

    make_worker(broker)
    broker.join("default", timeout=10_000)

    assert ran.count("after") == calls
    assert {1, 2} <= set(ran)


@pytest.mark.parametrize("position", [0, 1])
def test_pipeline_ends_at_a_duplicate(
    broker: StreamsBroker,
    work: Any,
    after: Any,
    make_worker: MakeWorker,
    *,
    ran: list[Any],
    position: int,
) -> None:
    work.send_with_options(args=(1,), delay=60_000)
    steps = [work.message(2), work.message(3)]
    steps[position] = work.message(1)
    pipeline = dramatiq.pipeline([*steps, after.message()], broker=broker)
    pipeline.run()

    make_worker(broker)
    size = broker._process.queues.size
    wait_until(lambda: size("default") == 1, message="only the first one waits")

    assert ran == [2][:position]
