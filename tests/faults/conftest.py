"""What these tests share: a scene, quick restarts, a proxy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import dramatiq.worker
import pytest

from dramatiq_streams.calls import assembled
from tests.conftest import MakeBroker, MakeWorker, StartCommand
from tests.faults.actors import declare_actors
from tests.faults.journal import Journal
from tests.faults.scene import Scene
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server

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
