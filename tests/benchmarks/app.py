"""What every system's worker command loads: the system that the environment names, opened.

With `BENCH_BARRIER` each worker process stops here until the trial lets all of them go at once, so
that neither Python's start nor its imports are measured.
"""

import importlib
import os
import time
from pathlib import Path

from tests.benchmarks.systems.interface import System

_BARRIER_TIMEOUT = 60.0


def pass_barrier() -> None:
    """Say that this process is ready, and wait for the word to go."""
    directory = Path(os.environ["BENCH_DIRECTORY"])
    (directory / f"{os.getpid()}.ready").touch()
    deadline = time.monotonic() + _BARRIER_TIMEOUT
    while not (directory / "go").exists():
        if time.monotonic() > deadline:
            raise TimeoutError("nobody lets the workers go")
        time.sleep(0.005)


def _open() -> System:
    module, _, name = os.environ["BENCH_SYSTEM"].partition(":")
    kind: type[System] = getattr(importlib.import_module(module), name)
    return kind(os.environ["BENCH_URL"], os.environ["BENCH_QUEUE"])


system = _open()
broker = system.broker

if os.environ.get("BENCH_BARRIER"):
    pass_barrier()
