"""The command `dramatiq-streams` on this test's namespace, in this process; what it migrates."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import dramatiq
import pytest
import redis

from dramatiq_streams import StreamsBroker
from dramatiq_streams.cli import main
from dramatiq_streams.executor import Executor
from dramatiq_streams.middleware.idempotency.records import Records, Request
from tests.integration.unique.conftest import UniqueKeys
from tests.support.redis_broker import OldBroker
from tests.support.servers import Server


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of the command has printed, and its exit code."""

    code: int
    out: str
    error: str

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)


RunCommand = Callable[..., Run]

HOUR_MS = 3_600_000


@pytest.fixture
def records(broker: StreamsBroker, namespace: str) -> Iterator[Records]:
    """What the middleware Idempotency writes down."""
    executor = Executor(broker.client.connection_pool)
    yield Records(executor, namespace=namespace, prefix="idempotency")
    executor.close()


def run_under(records: Records, key: str, message_id: str, *, lease_ms: int = 60_000) -> None:
    """Note that a message runs under *key*."""
    request = Request(key=key, arguments="a", message_id=message_id, ttl_ms=HOUR_MS)
    records.start(request, owner="o", consumer="host:1:abc", lease_ms=lease_ms)


def keys_of(result: Run) -> list[str]:
    """The keys that `locks ls --json` lists."""
    return [lock["key"] for lock in result.json["locks"]]


@pytest.fixture
def run(
    server: Server,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> RunCommand:
    """Runs the command, as in `run("stats", "--json")`, on this test's server and namespace."""
    monkeypatch.setenv("DRAMATIQ_STREAMS_URL", server.url)
    monkeypatch.setenv("DRAMATIQ_STREAMS_NAMESPACE", namespace)

    def run_command(*arguments: str) -> Run:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as end:  # argparse
            code = int(end.code or 0)
        printed = capsys.readouterr()
        return Run(code, printed.out, printed.err)

    return run_command


Migrate = Callable[..., Run]


@pytest.fixture
def old(server: Server) -> Iterator[OldBroker]:
    """A RedisBroker with nothing in it, on the server that ours is on."""
    old = OldBroker(server, f"old-{secrets.token_hex(6)}")
    yield old
    old.clean()


@pytest.fixture
def migrate(old: OldBroker, run: RunCommand) -> Migrate:
    """Runs the command from the old broker to this test's namespace."""
    return lambda *arguments: run(
        "migrate", "--from", old.url, "--from-namespace", old.namespace, *arguments
    )


def left(result: Run) -> dict[str, int]:
    """Why messages were left, and how many."""
    return dict(sum((Counter(each["left"]) for each in result.json["queues"]), Counter()))


@pytest.fixture
def work(broker: StreamsBroker) -> dramatiq.Actor[Any, Any]:
    """An actor whose messages are unique by their argument."""
    return dramatiq.actor(
        actor_name="work", broker=broker, unique_for=60_000, idempotency_key="{number}"
    )(lambda number: None)


@pytest.fixture
def unique_keys(redis_client: redis.Redis, namespace: str) -> UniqueKeys:
    return UniqueKeys(redis_client, namespace)
