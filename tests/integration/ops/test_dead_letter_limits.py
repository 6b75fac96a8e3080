"""How long dead letters are kept, and how many: of a broker, an actor, a message."""

from typing import Any

import dramatiq
import pytest

from dramatiq_streams import InvalidOption, StreamsBroker
from dramatiq_streams.dead_letters import DeadLetters
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import QueueState
from tests.support.waiting import wait_until

DAY_MS = 86_400_000


def declare(broker: StreamsBroker, name: str, **options: Any) -> dramatiq.Actor[Any, Any]:
    def fail() -> None:
        raise ZeroDivisionError

    return dramatiq.actor(broker=broker, actor_name=name, max_retries=0, **options)(fail)


def days_left(queue: QueueState) -> list[int]:
    """For how many days each letter is still kept, by when it died."""
    found: Any = queue.client.zrange(queue.keys.dead_expiries, 0, -1, withscores=True)
    now_ms = queue.now_ms()
    return [round((expiry - now_ms) / DAY_MS) for _, expiry in sorted(found)]


def test_message_comes_before_actor_and_actor_before_broker(
    make_broker: MakeBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    broker = make_broker(dead_message_ttl=2 * DAY_MS)
    plain = declare(broker, "plain")
    own = declare(broker, "own", dead_message_ttl=3 * DAY_MS)
    make_worker(broker, threads=1)

    for send in (
        plain.send,
        lambda: plain.send_with_options(dead_message_ttl=4 * DAY_MS),
        own.send,
        lambda: own.send_with_options(dead_message_ttl=5 * DAY_MS),
        lambda: own.send_with_options(dead_message_ttl=None),
    ):
        send()
        broker.join("default", timeout=10_000)

    assert days_left(queue) == [2, 4, 3, 5, 3]


def test_letters_are_dropped_one_by_one_when_their_time_has_come(
    make_broker: MakeBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    broker = make_broker()
    brief = declare(broker, "brief", dead_message_ttl=1_000)
    plain = declare(broker, "plain")
    make_worker(broker, threads=1)
    for actor in (plain, brief, plain):
        actor.send()
        broker.join("default", timeout=10_000)
    letters = broker._process.dead_letters

    def is_dropped() -> bool:
        letters.expire("default")
        return len(queue.dead()) == 2

    wait_until(is_dropped)

    assert {dramatiq.Message.decode(letter["m"]).actor_name for letter in queue.dead()} == {"plain"}


def test_only_the_newest_are_kept_and_that_is_said_once(
    make_broker: MakeBroker,
    make_worker: MakeWorker,
    queue: QueueState,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = make_broker(max_dead_messages=3)
    actor = declare(broker, "fails")
    make_worker(broker, threads=1)

    sent = [actor.send().message_id for _ in range(8)]
    broker.join("default", timeout=10_000)

    kept = [dramatiq.Message.decode(letter["m"]).message_id for letter in queue.dead()]
    assert kept == sent[-3:]
    assert queue.client.zcard(queue.keys.dead_expiries) == 3
    said = [record for record in caplog.records if "max_dead_messages (3)" in record.message]
    assert [record.levelname for record in said] == ["WARNING"]


def test_lower_limit_is_enforced_on_what_is_there(
    make_broker: MakeBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    broker = make_broker()
    actor = declare(broker, "fails")
    worker = make_worker(broker)
    broker.enqueue_many([actor.message() for _ in range(450)])
    broker.join("default", timeout=20_000)
    worker.stop()
    assert len(queue.dead()) == 450

    other = make_broker(max_dead_messages=5)
    other._process.dead_letters.expire("default")

    assert len(queue.dead()) == 5 == queue.client.zcard(queue.keys.dead_expiries)


@pytest.mark.parametrize("value", [0, 999, -1, "1000", 1000.0, True, 10**20, [1000]])
def test_impossible_time_is_refused_of_actors_and_messages(
    broker: StreamsBroker, value: Any
) -> None:
    with pytest.raises(InvalidOption, match="dead_message_ttl"):
        declare(broker, "refused", dead_message_ttl=value)
    actor = declare(broker, "plain")
    with pytest.raises(InvalidOption, match="dead_message_ttl"):
        actor.send_with_options(dead_message_ttl=value)
    with pytest.raises(InvalidOption, match="dead_message_ttl"):
        broker.enqueue_many([actor.message_with_options(dead_message_ttl=value)])


def test_letters_of_before_get_the_time_of_the_broker(
    make_broker: MakeBroker, queue: QueueState
) -> None:
    for number in range(1, 451):
        queue.client.xadd(queue.keys.dead, {"m": b"{}"}, id=f"{queue.now_ms()}-{number}")

    DeadLetters.expire(make_broker(dead_message_ttl=2 * DAY_MS)._process.dead_letters, "default")

    assert days_left(queue) == [2] * 450
