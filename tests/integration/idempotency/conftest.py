"""Five lock servers for all tests of a process; nobody stops or pauses them."""

from collections.abc import Iterator

import pytest

from tests.conftest import _new_server
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
