"""The queue as the server has it, its unique keys, actors whose messages are sent once, a gate."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import dramatiq
import pytest
import redis

from dramatiq_streams import StreamsBroker
from dramatiq_streams.keys import queue_keys
from dramatiq_streams.lanes import DEFAULT_LANES
from tests.contract.queue_state import QueueState
from tests.support.waiting import wait_until

Actor = dramatiq.Actor[Any, Any]
MakeActor = Callable[..., Actor]


class UniqueKeys:
    """The unique keys of the queue "default", straight from the server."""

    def __init__(self, client: redis.Redis, namespace: str) -> None:
        self.client = client
        self.keys = queue_keys(namespace, "default", tuple(DEFAULT_LANES))

    def held(self) -> dict[str, str]:
        """Each key that a message has, and the message's id."""
        found = {}
        for key, record in self.client.hgetall(self.keys.unique_messages).items():
            token, colon, message_id = record.decode().partition(":")
            if colon and token.isalnum():
                found[key.decode()] = message_id
        return found

    def end(self, key: str) -> None:
        """Let the reservation of *key* end now, as if its time were over."""
        self.client.zadd(self.keys.unique, {key: 1}, xx=True)

    def ends_in_ms(self, key: str) -> float:
        """When *key* is free at the latest."""
        score = self.client.zscore(self.keys.unique, key)
        assert isinstance(score, float)
        seconds, microseconds = self.client.time()
        return score - seconds * 1000 - microseconds / 1000


@pytest.fixture
def queue(redis_client: redis.Redis, namespace: str) -> QueueState:
    """The queue "default" as the server has it."""
    return QueueState(redis_client, namespace)


@pytest.fixture
def unique_keys(redis_client: redis.Redis, namespace: str) -> UniqueKeys:
    """The unique keys of the queue "default"."""
    return UniqueKeys(redis_client, namespace)


@pytest.fixture
def make_actor(broker: StreamsBroker) -> MakeActor:
    """Declares an actor called `work`, whose messages are unique by default until they are done."""

    def make(work: Callable[..., Any] = lambda number=0: None, **options: Any) -> Actor:
        if not {"unique_for", "unique_until"} & options.keys():
            options["unique_for"] = 60_000
        return dramatiq.actor(actor_name="work", broker=broker, **options)(work)

    return make


@pytest.fixture
def work(make_actor: MakeActor) -> Actor:
    """An actor with one argument, unique until it is done."""
    return make_actor()


class Gate:
    """Holds actors until it is opened, and notes what they were called with."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.opened = threading.Event()

    def pass_through(self, number: int) -> None:
        """The actor's body."""
        self.started.append(number)
        assert self.opened.wait(20)

    def wait_for_starts(self, count: int) -> None:
        """Wait until so many calls have begun."""
        wait_until(lambda: len(self.started) >= count, message=f"{count} have started")


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A closed gate."""
    made = Gate()
    yield made
    made.opened.set()


def wait_until_free(unique_keys: UniqueKeys) -> None:
    """Wait until no message has a key."""
    wait_until(lambda: not unique_keys.held(), message="no message has a key")
