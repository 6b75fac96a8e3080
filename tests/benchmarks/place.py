"""Where trials take place: the settings of one run, the servers, and which systems can run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.rabbitmq_server import RabbitmqServer
from tests.benchmarks.registry import SYSTEMS
from tests.benchmarks.trial import Trial, new_directory
from tests.support.binaries import Binary, find_binary
from tests.support.servers import Server

_DEBIAN_REDIS = Path("/usr/bin/redis-server")


@dataclass(slots=True)
class Place:
    """What all trials of one run share.

    Args:
        messages: How many a drain has; some others take their numbers from it.
        is_quick: Fewer and shorter measurements, for trying out.
    """

    binary: Binary
    messages: int
    is_quick: bool
    rabbitmq: RabbitmqServer | None = None
    chosen: frozenset[str] = field(default_factory=lambda: frozenset(SYSTEMS))

    @property
    def burst(self) -> int:
        """How many messages a burst has."""
        return 2_000 if self.is_quick else 10_000

    @contextlib.contextmanager
    def trial(self, name: str) -> Iterator[Trial]:
        """A trial of the system *name*, on a server that is new, or was idle until now."""
        system = SYSTEMS[name]
        directory = new_directory()
        if system.server == "redis":
            server = Server(self.binary, tcp=True)
            server.start()
            trial = Trial(system, f"{server.tcp_url}/0", server, directory)
        elif system.server == "rabbitmq":
            assert self.rabbitmq is not None
            trial = Trial(system, self.rabbitmq.url, None, directory)
        else:
            trial = Trial(system, "", None, directory)
        rabbitmq = self.rabbitmq if system.server == "rabbitmq" else None
        with rabbitmq.running() if rabbitmq else contextlib.nullcontext():
            try:
                yield trial
            finally:
                trial.close()

    def can_run(self, name: str) -> bool:
        """Whether the system *name* was asked for and has its server."""
        if SYSTEMS[name].server == "rabbitmq" and self.rabbitmq is None:
            return False
        return name in self.chosen


def choose_binary(name: str | None) -> Binary:
    """The server *name*; by default Debian's Redis 7.0 where it is installed, else Valkey 9."""
    if name is None and _DEBIAN_REDIS.exists():
        binary = Binary("redis", _DEBIAN_REDIS)
        if binary.version():
            return binary
    return find_binary(name)
