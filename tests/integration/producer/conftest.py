"""A broker behind a proxy, its queue past both, and middleware that counts signals."""

from collections import Counter
from collections.abc import Iterator

import pytest
import redis
from dramatiq.middleware import Middleware

from tests.contract.queue_state import QueueState
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server


class Signals(Middleware):
    """Counts what is signalled around enqueue."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def before_enqueue(self, broker, message, delay) -> None:
        self.counts["before"] += 1

    def after_enqueue(self, broker, message, delay) -> None:
        self.counts["after"] += 1


@pytest.fixture
def signals() -> Signals:
    return Signals()


@pytest.fixture
def proxy(server: Server) -> Iterator[FaultyProxy]:
    """A proxy in front of the shared server."""
    with FaultyProxy(server) as started:
        yield started


@pytest.fixture
def queue(redis_client: redis.Redis, namespace: str) -> QueueState:
    """The queue "default" as the server has it."""
    return QueueState(redis_client, namespace)
