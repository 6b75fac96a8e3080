"""Five lock servers for all tests of a process; nobody stops or pauses them."""

from collections.abc import Callable, Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq.middleware import AgeLimit

from dramatiq_streams import StreamsBroker
from dramatiq_streams.events import Event
from dramatiq_streams.middleware import Idempotency
from tests.conftest import MakeBroker, _new_server
from tests.support.locking import LockServers, lock_servers
from tests.support.servers import Server


@pytest.fixture(scope="session")
def _five_servers() -> Iterator[list[Server]]:
    with lock_servers(5, _new_server) as servers:
        yield servers


@pytest.fixture
def lockers(_five_servers: list[Server]) -> Iterator[LockServers]:
    """Lock servers without a key."""
    made = LockServers(_five_servers)
    yield made
    made.close()


#: As short as a lease may be with one lock server.
LEASE_MS = 600


class IdempotentBroker(StreamsBroker):
    """A broker with `Idempotency`, and what it told."""

    told: list[Event]
    idempotency: Idempotency

    @property
    def records(self) -> Any:
        """The records of its keys."""
        return self.idempotency._claimant_of(self).records

    @property
    def letters(self) -> list[dict[bytes, bytes]]:
        """Its dead letters."""
        entries: Any = self.client.xrange(f"{{{self.namespace}:default:0}}:dead")
        return [fields for _, fields in entries]


def declared(fn: Callable[..., Any], **options: Any) -> dramatiq.Actor[..., Any]:
    """*fn* as an actor."""
    return dramatiq.actor(**options)(fn)


MakeIdempotent = Callable[..., IdempotentBroker]


@pytest.fixture
def make_idempotent(make_broker: MakeBroker) -> Iterator[MakeIdempotent]:
    """Makes brokers with `Idempotency`; its options are given by name, the broker's as *broker*."""
    made: list[Idempotency] = []

    def make(broker: dict[str, Any] | None = None, **options: Any) -> IdempotentBroker:
        idempotent: Any = make_broker(**(broker or {}))
        idempotent.__class__ = IdempotentBroker
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
