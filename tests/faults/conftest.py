"""What these tests share: a journal, brokers with short leases, and processes that may die."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import dramatiq.worker
import pytest
import redis

from dramatiq_streams import StreamsBroker
from dramatiq_streams.scripts import assembled
from tests.conftest import MakeBroker, StartCommand
from tests.faults.actors import Actors, declare_actors
from tests.faults.journal import Journal
from tests.support.cli import DramatiqCommand
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server

LEASE_MS = 1_000

_ROOT = Path(__file__).parents[2]
_SOURCE = f"""
import sys
sys.path.append({str(_ROOT)!r})
from tests.faults.victim import broker
"""


class StartVictims(Protocol):
    """Starts the `dramatiq` command with the actors of these tests.

    `die_at` is explained in `victim.py`, a `prefetch` of 0 is dramatiq's default; other options are
    those of `cli`.
    """

    def __call__(
        self,
        *,
        die_at: str = "",
        prefetch: int = 0,
        broker_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> DramatiqCommand: ...


@pytest.fixture(autouse=True)
def _quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers and settlements are tried again soon, in this process too."""
    monkeypatch.setattr(dramatiq.worker, "CONSUMER_RESTART_DELAY_SECS", 0.1)
    monkeypatch.setattr(dramatiq.worker, "POST_PROCESS_MESSAGE_RETRY_DELAY_SECS", 0.2)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """What the actors of this test note."""
    return Journal(tmp_path)


@pytest.fixture
def broker(make_broker: MakeBroker) -> StreamsBroker:
    """A broker on the shared server whose leases are as short as they may be."""
    return make_broker(lease=LEASE_MS)


@pytest.fixture
def actors(broker: StreamsBroker, journal: Journal) -> Actors:
    """The actors of these tests on `broker`."""
    return declare_actors(broker, journal)


@pytest.fixture
def victims(cli: StartCommand, journal: Journal) -> StartVictims:
    """Starts worker processes on the shared server, with short leases."""

    def start(
        *,
        die_at: str = "",
        prefetch: int = 0,
        broker_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> DramatiqCommand:
        environment = {
            "TEST_DIE_AT": die_at,
            "TEST_DIRECTORY": str(journal.directory),
            "TEST_BROKER_OPTIONS": json.dumps({"lease": LEASE_MS, **(broker_options or {})}),
            "dramatiq_restart_delay": "100",
            "dramatiq_queue_prefetch": str(prefetch),
        }
        return cli(_SOURCE, environment=environment, **options)

    return start


@pytest.fixture
def loaded_scripts(redis_client: redis.Redis) -> None:
    """Every script is on the shared server: a call is one EVALSHA."""
    for text in assembled().values():
        redis_client.script_load(text)


@pytest.fixture
def proxy(server: Server, loaded_scripts: None) -> Iterator[FaultyProxy]:
    """A proxy in front of the shared server."""
    with FaultyProxy(server) as started:
        yield started
