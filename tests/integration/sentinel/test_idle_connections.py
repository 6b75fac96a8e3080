"""An idle connection asks, once per second, whether its server is still the master."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from dramatiq_streams import clock
from dramatiq_streams.executor import Executor
from dramatiq_streams.sentinel import ASK_INTERVAL_MS, Masters, SentinelConnection
from tests.support.sentinels import SERVICE, Deployment


class Told(Masters):
    """Sentinels that say what the test tells them: this master, or None for nothing."""

    def __init__(self, port: int) -> None:
        super().__init__(SERVICE, [("127.0.0.1", port)], {})
        self.port: int | None = port
        self.asked = 0

    def _ask(self, sentinel: Any) -> tuple[str, int]:
        self.asked += 1
        if self.port is None:
            raise redis.ConnectionError("They are silent.")
        return "127.0.0.1", self.port


class Now:
    """A clock that stands still but for what passes in the test."""

    def __init__(self) -> None:
        self.ms = 1_000_000.0

    def __call__(self) -> float:
        return self.ms


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    made = Now()
    monkeypatch.setattr(clock, "monotonic_ms", made)
    return made


@pytest.fixture
def masters(deployment: Deployment) -> Told:
    return Told(deployment.master.port)


@pytest.fixture
def executor(masters: Told) -> Iterator[Executor]:
    made = Executor(
        redis.ConnectionPool(
            connection_class=SentinelConnection,
            masters=masters,
            socket_timeout=5.0,
            socket_connect_timeout=5.0,
            protocol=2,
        )
    )
    yield made
    made.close()


def is_at(executor: Executor, port: int) -> bool:
    """Whether the server that it reaches listens there."""
    return f"tcp_port:{port}\r\n".encode() in executor.execute("INFO", "server")


def test_idle_connection_leaves_what_is_the_master_no_more(
    executor: Executor, masters: Told, now: Now, deployment: Deployment
) -> None:
    assert is_at(executor, deployment.master.port)

    masters.port = deployment.replica.port
    now.ms += ASK_INTERVAL_MS

    assert is_at(executor, deployment.replica.port)


def test_it_asks_once_per_second(
    executor: Executor, masters: Told, now: Now, deployment: Deployment
) -> None:
    for _ in range(5):
        for _ in range(20):
            assert is_at(executor, deployment.master.port)
            now.ms += ASK_INTERVAL_MS / 20

    assert masters.asked == 5


def test_master_stays_what_it_was_while_no_sentinel_answers(
    executor: Executor, masters: Told, now: Now, deployment: Deployment
) -> None:
    assert is_at(executor, deployment.master.port)

    masters.port = None
    now.ms += ASK_INTERVAL_MS

    assert is_at(executor, deployment.master.port)
    assert masters.asked == 2
