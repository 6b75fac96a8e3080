"""What a worker without work asks of the server and of its own machine."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
import redis

from tests.benchmarks.place import Place
from tests.benchmarks.systems.dramatiq_family import DramatiqSystem
from tests.benchmarks.trial import Trial

#: Seconds in which a worker becomes quiet.
_SETTLE = 5.0


@dataclass(frozen=True, slots=True)
class Idle:
    """A worker without work.

    Args:
        requests: Commands per second that its process sends.
        calls: Commands per second that the server runs, those within scripts included.
        connections: To the server.
        cpu: Seconds of CPU per second, of the worker.
    """

    requests: float
    calls: float
    threads: int
    connections: int
    rss_mb: float
    cpu: float

    def as_measured(self) -> dict[str, float]:
        """By the names that tables have."""
        return {
            "requests/s": self.requests,
            "calls/s": self.calls,
            "threads": self.threads,
            "connections": self.connections,
            "RSS MB": self.rss_mb,
            "CPU %": self.cpu * 100,
        }


#: What the tables say of `Idle.as_measured`.
METRICS = {
    "requests/s": "sent to Redis",
    "calls/s": "run by Redis, within scripts too",
    "threads": "",
    "connections": "",
    "RSS MB": "",
    "CPU %": "of one core",
}


def idle(place: Place, name: str, *, queues: int = 1) -> Idle:
    """Measure a worker after it has run something and has become quiet."""
    seconds = 5.0 if place.is_quick else 20.0
    with place.trial(name) as trial:
        in_process = issubclass(trial.system, DramatiqSystem)
        environment = {"BENCH_QUEUES": str(queues)}
        with trial.workers(in_process=in_process, environment=environment):
            trial.warm_up()
            time.sleep(min(_SETTLE, seconds))
            return _watch(trial, seconds)


def _watch(trial: Trial, seconds: float) -> Idle:
    (pid,) = trial.pids()
    process = psutil.Process(pid)
    assert trial.server is not None
    with _monitored(trial.server.client()) as counts:
        before = process.cpu_times()
        time.sleep(seconds)
        after = process.cpu_times()
        sent, within = counts["sent"], counts["script"]
    remote = f"127.0.0.1:{trial.server.port}"
    return Idle(
        requests=sent / seconds,
        calls=(sent + within) / seconds,
        threads=process.num_threads(),
        connections=_connections(process, remote),
        rss_mb=process.memory_info().rss / 2**20,
        cpu=(after.user + after.system - before.user - before.system) / seconds,
    )


@contextmanager
def _monitored(client: redis.Redis) -> Iterator[Counter[str]]:
    """Count the commands that the server is sent, and those that scripts run, with MONITOR."""
    counts: Counter[str] = Counter()
    with client.monitor() as monitor:
        thread = threading.Thread(target=_count, args=(monitor, counts), daemon=True)
        thread.start()
        yield counts
        client.echo("done")
        thread.join(10)


def _count(monitor: redis.client.Monitor, counts: Counter[str]) -> None:
    for line in monitor.listen():
        if line["command"] == "ECHO done":
            return
        counts["script" if line["client_type"] == "lua" else "sent"] += 1


def _connections(process: psutil.Process, remote: str) -> int:
    found = process.net_connections(kind="inet")
    return sum(bool(one.raddr) and f"{one.raddr.ip}:{one.raddr.port}" == remote for one in found)
