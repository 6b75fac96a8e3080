"""Lock servers for tests: several real ones, and what is left on them."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import redis

from dramatiq_streams import LocksUnavailable
from dramatiq_streams.middleware.idempotency.masters import Masters
from dramatiq_streams.middleware.idempotency.redlock import Redlock

from .servers import Server
from .waiting import wait_until

#: Short enough to wait for, long enough for a busy machine.
LEASE_MS = 2_000

#: The key of most locks.
KEY = "{locks}:a"


class LockServers:
    """Up to five servers; what is made of them is closed with the test.

    Args:
        start: Starts one more server, or finds one that is started already.
    """

    def __init__(self, servers: Sequence[Server]) -> None:
        self.servers = list(servers)
        self._masters: list[Masters] = []

    def __getitem__(self, number: int) -> Server:
        return self.servers[number]

    def masters(self, *urls: str, size: int = 3, master_timeout: int = 100) -> Masters:
        """The first *size* servers as masters, or others that *urls* name."""
        named = urls or tuple(server.url for server in self.servers[:size])
        made = Masters(named, master_timeout=master_timeout)
        self._masters.append(made)
        return made

    def clients(self) -> list[redis.Redis]:
        """A client of each."""
        return [server.client() for server in self.servers]

    def values(self, key: str) -> list[str | None]:
        """Who has *key*, on each server."""
        found = [client.get(key) for client in self.clients()]
        return [value.decode() if isinstance(value, bytes) else None for value in found]

    def are_empty(self) -> bool:
        """Whether no key is left anywhere."""
        return not any(client.dbsize() for client in self.clients())

    def wait_until_empty(self, *, timeout: float = 10.0) -> None:
        """Until no key is left anywhere; by default much longer than the releases of a test."""
        wait_until(self.are_empty, timeout=timeout, message="no key is left on any master")

    def close(self) -> None:
        """Close what was made, let every server run, and leave no key on it."""
        for masters in self._masters:
            masters.close()
        for server in self.servers:
            server.start()
            server.resume()
            server.client().flushall()


@contextmanager
def lock_servers(count: int, make: Callable[..., Server] = Server) -> Iterator[list[Server]]:
    """*count* running servers."""
    servers = [make(tcp=True) for _ in range(count)]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.close()


def lock(masters: Masters, key: str = KEY, *, lease_ms: int = LEASE_MS) -> Redlock:
    """A lock that nobody has taken yet."""
    return Redlock(key, masters=masters, lease_ms=lease_ms)


def known(ask: Callable[[], bool], *, timeout: float = 5.0) -> bool:
    """What *ask* returns as soon as it does not raise `LocksUnavailable`.

    A busy machine may stop servers for longer than their timeout.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            return ask()
        except LocksUnavailable:
            if time.monotonic() >= deadline:
                raise


def is_free(masters: Masters, key: str) -> bool:
    """Whether somebody else could take *key* now; it is released again."""
    probe = lock(masters, key)
    is_taken = known(probe.acquire)
    probe.release()
    return is_taken


def refused_to_lockers(servers: Iterable[Server]) -> set[str]:
    """What *servers* have refused to their user, but PING: a slow one is probed with that.

    Its user may not, and the refusal is the answer that it is there.
    """
    return {each["object"] for server in servers for each in server.refusals} - {"ping"}
