"""Five lock servers that nobody stops or pauses, brokers with keys, an actor that counts."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq.middleware import AgeLimit

from dramatiq_streams import StreamsBroker
from dramatiq_streams.events import Event
from dramatiq_streams.middleware import Idempotency
from tests.conftest import MakeBroker, _new_server
from tests.support.locking import LockServers, lock_servers, refused_to_lockers
from tests.support.servers import Server
from tests.support.users import IDEMPOTENCY, lock_server_user_under_test, rights_beside


@pytest.fixture(scope="module")
def server(server: Server) -> Iterator[Server]:
    """The shared server, whose user has what idempotency needs besides."""
    own, _ = rights_beside(IDEMPOTENCY)
    with server.granting(own):
        yield server


@pytest.fixture(scope="session")
def _five_servers() -> Iterator[list[Server]]:
    make = partial(_new_server, user=lock_server_user_under_test())
    with lock_servers(5, make) as servers:
        yield servers
        assert refused_to_lockers(servers) == set()


@pytest.fixture
def lockers(_five_servers: list[Server]) -> Iterator[LockServers]:
    """Lock servers without a key."""
    made = LockServers(_five_servers)
    yield made
    made.close()


#: As short as a lease may be with one lock server.
LEASE_MS = 600

SECOND_MS = 1_000


class IdempotentBroker(StreamsBroker):
    """A broker with `Idempotency`, and what it told."""

    told: list[Event]
    #: Looks, and tampers, past the broker's own user.
    witness: redis.Redis
    idempotency: Idempotency

    @property
    def records(self) -> Any:
        """The records of its keys."""
        return self.idempotency._claimant_of(self).records

    @property
    def letters(self) -> list[dict[bytes, bytes]]:
        """Its dead letters."""
        entries: Any = self.witness.xrange(f"{{{self.namespace}:default:0}}:dead")
        return [fields for _, fields in entries]


def declared(fn: Callable[..., Any], **options: Any) -> dramatiq.Actor[..., Any]:
    """*fn* as an actor."""
    return dramatiq.actor(**options)(fn)


MakeIdempotent = Callable[..., IdempotentBroker]


@pytest.fixture
def make_idempotent(make_broker: MakeBroker, redis_client: redis.Redis) -> Iterator[MakeIdempotent]:
    """Makes brokers with `Idempotency`; its options are given by name, the broker's as *broker*."""
    made: list[Idempotency] = []

    def make(broker: dict[str, Any] | None = None, **options: Any) -> IdempotentBroker:
        idempotent: Any = make_broker(**(broker or {}))
        idempotent.__class__ = IdempotentBroker
        idempotent.witness = redis_client
        idempotent.idempotency = Idempotency(**options)
        made.append(idempotent.idempotency)
        idempotent.add_middleware(idempotent.idempotency, before=AgeLimit)
        idempotent.told = []
        idempotent.events.listen(lambda event, label, amount: idempotent.told.append(event))
        return idempotent

    yield make
    for idempotency in made:
        for claimant in idempotency._claimants.values():
            claimant.close()


class Runs(list[Any]):
    """What an actor was called with; it fails as often as it is told to."""

    failures = 0

    def note(self, *args: Any, **kwargs: Any) -> Any:
        self.append((*args, *kwargs.values()))
        if self.failures > 0:
            self.failures -= 1
            raise RuntimeError("fails")
        return len(self)


@pytest.fixture
def runs() -> Runs:
    """Nothing yet."""
    return Runs()


def declare(broker: dramatiq.Broker, runs: Runs, **options: Any) -> dramatiq.Actor[..., Any]:
    """The actor `fetch`, which notes its *runs*."""

    def fetch(url: str, depth: int = 0) -> Any:
        return runs.note(url, depth)

    options = {"min_backoff": 10, "max_backoff": 20, **options}
    return declared(fetch, broker=broker, actor_name="fetch", **options)


def join(broker: dramatiq.Broker) -> None:
    """Wait until its queue is empty."""
    broker.join("default", timeout=10 * SECOND_MS)
