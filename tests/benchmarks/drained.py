"""Draining a full queue, and what that costs: for several scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.systems.dramatiq_family import DramatiqSystem
from tests.benchmarks.trial import THREADS, Trial, Workers, cpu_seconds


@dataclass(frozen=True, slots=True)
class Drained:
    """What draining has taken.

    Args:
        rate: Messages per second, from the first start to the last.
        server: By how much each counter of the server's INFO has grown; empty without Redis.
        worker_cpu: Seconds of CPU of the worker processes, and so on.
    """

    messages: int
    rate: float
    server: Mapping[str, float]
    worker_cpu: float
    server_cpu: float


def drain(place: Place, name: str, *, processes: int = 1, messages: int | None = None) -> Drained:
    """Fill a queue, then let workers of *name* loose on it, and check every message.

    One process of dramatiq is a Worker in a process of ours, the same for its StubBroker; more are
    the `dramatiq` command's. Other systems are started by their own commands.
    """
    count = messages or place.messages
    with place.trial(name) as trial:
        in_process = processes == 1 and issubclass(trial.system, DramatiqSystem)
        fills_itself = trial.system.server == "none"
        if not fills_itself:
            trial.produce(Plan(count=count, how="many"))
        with trial.workers(
            processes=processes,
            threads=THREADS,
            in_process=in_process,
            barrier=True,
            fill=count if fills_itself else 0,
        ) as workers:
            before = _costs(trial, workers)
            trial.let_go()
            trial.wait_for(count)
            after = _costs(trial, workers)
        starts = trial.check(range(count))
    grown = {key: after[key] - before[key] for key in after}
    return Drained(
        messages=count,
        rate=(count - 1) / (starts[-1].at - starts[0].at),
        server=grown,
        worker_cpu=grown.pop("worker_cpu"),
        server_cpu=grown.pop("server_cpu"),
    )


def _costs(trial: Trial, workers: Workers) -> dict[str, float]:
    return {**server_counters(trial), "worker_cpu": workers.cpu(), "server_cpu": server_cpu(trial)}


def server_counters(trial: Trial) -> dict[str, float]:
    """What the Redis server has counted so far; empty for systems without one.

    `round_trips` are reads of the server: a request, or a pipeline, comes in one. `commands` are
    all calls, also those that scripts make.
    """
    if trial.server is None:
        return {}
    stats = trial.server.client().info("stats")
    calls = trial.server.client().info("commandstats")
    return {
        "round_trips": stats["total_reads_processed"],
        "commands": sum(one["calls"] for one in calls.values()),
        "bytes_in": stats["total_net_input_bytes"],
        "bytes_out": stats["total_net_output_bytes"],
    }


def server_cpu(trial: Trial) -> float:
    """Seconds of CPU that the Redis server has used."""
    return cpu_seconds(psutil.Process(trial.server.pid)) if trial.server else 0.0
