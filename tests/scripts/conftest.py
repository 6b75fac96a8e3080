"""A shard of a queue to seed: on the shared server, or on one that a test may fill up."""

from collections.abc import Iterator

import pytest

from tests.conftest import StartServer
from tests.scripts.claimed import Claimed
from tests.scripts.recorded import Recorded
from tests.scripts.shard import Shard
from tests.support.servers import Server
from tests.support.users import CLAIMS, rights_beside


@pytest.fixture
def empty_shard(server: Server, namespace: str) -> Iterator[Shard]:
    """A shard of which no key exists."""
    shard = Shard(server, namespace)
    yield shard
    shard.close()


@pytest.fixture
def shard(empty_shard: Shard) -> Shard:
    """A shard with its streams and their group, and no message."""
    empty_shard.ensure_groups()
    return empty_shard


@pytest.fixture
def fillable_shard(start_server: StartServer, namespace: str) -> Iterator[Shard]:
    """A shard with its streams, on a server of this test alone: see `Shard.fill_memory`."""
    shard = Shard(start_server(), namespace)
    shard.ensure_groups()
    yield shard
    shard.close()


@pytest.fixture
def claiming(server: Server) -> Iterator[None]:
    """The shared server's user has what claims of both kinds need besides."""
    exact, bloom = rights_beside(CLAIMS)
    with server.granting({*exact, *bloom}):
        yield


@pytest.fixture
def claimed(claiming: None, empty_shard: Shard, namespace: str) -> Claimed:
    """An empty set of claims."""
    return Claimed(empty_shard, namespace)


@pytest.fixture
def recorded(server: Server, namespace: str) -> Iterator[Recorded]:
    """The record of a key, of which nothing exists."""
    made = Recorded(server, namespace)
    yield made
    made.close()
