"""What these tests share: a scene, quick restarts, proxies, lock servers and what they log."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import dramatiq.worker
import pytest

from dramatiq_streams.calls import assembled
from dramatiq_streams.middleware.idempotency.master import Master
from dramatiq_streams.middleware.idempotency.masters import Masters
from tests.conftest import MakeBroker, MakeWorker, StartCommand, _new_server
from tests.faults.actors import declare_actors
from tests.faults.journal import Journal
from tests.faults.scene import Scene
from tests.support.locking import LockServers, lock_servers
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

#: As short as a lease may be.
LEASE_MS = 1_000


class Stage(Protocol):
    """Sets a scene on a server, which *url* may reach in another way; *options* are the broker's.

    Without a `lease` leases are as short as they may be.
    """

    def __call__(self, server: Server, *, url: str | None = None, **options: Any) -> Scene: ...


@pytest.fixture(autouse=True)
def _quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers and settlements are tried again soon, in this process too."""
    monkeypatch.setattr(dramatiq.worker, "CONSUMER_RESTART_DELAY_SECS", 0.1)
    monkeypatch.setattr(dramatiq.worker, "POST_PROCESS_MESSAGE_RETRY_DELAY_SECS", 0.2)


@pytest.fixture
def stage(
    make_broker: MakeBroker, make_worker: MakeWorker, cli: StartCommand, tmp_path: Path
) -> Stage:
    """Sets scenes."""

    def set_scene(server: Server, *, url: str | None = None, **options: Any) -> Scene:
        options = {"lease": LEASE_MS, **options}
        broker = make_broker(url=url or server.url, **options)
        journal = Journal(tmp_path)
        return Scene(
            url=url or server.url,
            options=options,
            broker=broker,
            actors=declare_actors(broker, journal),
            journal=journal,
            client=server.client(),
            cli=cli,
            make_worker=make_worker,
        )

    return set_scene


@pytest.fixture
def scene(stage: Stage, server: Server) -> Scene:
    """A scene on the shared server."""
    return stage(server)


@pytest.fixture
def proxy(server: Server) -> Iterator[FaultyProxy]:
    """A proxy in front of the shared server, which knows every script: a call is one EVALSHA."""
    with server.client() as client:
        for text in assembled().values():
            client.script_load(text)
    with FaultyProxy(server) as started:
        yield started


@pytest.fixture(scope="module")
def _five_servers() -> Iterator[list[Server]]:
    with lock_servers(5, _new_server) as servers:
        yield servers


@pytest.fixture
def lockers(_five_servers: list[Server]) -> Iterator[LockServers]:
    """Five running servers without a key."""
    made = LockServers(_five_servers)
    yield made
    made.close()


@pytest.fixture
def proxies(lockers: LockServers) -> Iterator[list[FaultyProxy]]:
    """A proxy in front of each of the first three."""
    made = [FaultyProxy(server) for server in lockers.servers[:3]]
    for proxy in made:
        proxy.accept()
    yield made
    for proxy in made:
        proxy.close()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator["Said"]:
    """What was logged of lock servers."""
    with caplog.at_level(logging.INFO, logger=Master.__module__):
        yield Said(caplog)


class Said:
    """The lines of the log about a lock server, without those for debugging."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def lines(self) -> list[str]:
        names = ("dramatiq_streams", "pottery")
        return [
            record.getMessage()
            for record in self._caplog.records
            if record.name.startswith(names) and record.levelno >= logging.INFO
        ]

    def of(self, masters: Masters, number: int) -> list[str]:
        """What was said of master *number*: one word for each line."""
        name = masters.names[number]
        return [line.split(name)[1].split()[1].strip(".:") for line in self.lines() if name in line]

    def wait_for_return(self, masters: Masters, number: int) -> None:
        wait_until(
            lambda: self.of(masters, number) == ["away", "back"],
            message=f"one line each for both ends: {self.lines()}",
        )
