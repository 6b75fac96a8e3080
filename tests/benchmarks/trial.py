"""One measurement of one system: its own server, its producers, its workers, and the check."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.benchmarks.ledger import Reader, Start, check_each_once
from tests.benchmarks.producer import Plan, Produced
from tests.benchmarks.systems.interface import System, python_module
from tests.support.processes import start_process
from tests.support.servers import Server
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
THREADS = 8
_APP = "tests.benchmarks.app"
_MODULE = "tests.benchmarks"
_STOP_TIMEOUT = 30.0
_WARM_UP_ROUNDS = 20


class Workers:
    """The processes of one worker command, measured from outside."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        """All that they have printed."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def tree(self) -> list[psutil.Process]:
        """The command and all of its children."""
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.process.pid)
            return [root, *root.children(recursive=True)]
        return []

    def cpu(self) -> float:
        """Seconds of CPU that all of them have used."""
        return sum(cpu_seconds(process) for process in self.tree())

    def stop(self) -> None:
        """SIGTERM, and SIGKILL to what is left after a while."""
        tree = self.tree()
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        _, alive = psutil.wait_procs(tree, timeout=1.0)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@dataclass(slots=True)
class Trial:
    """One system and what it needs, in a directory of its own.

    Args:
        server: The Redis server, where the system has one.
    """

    system: type[System]
    url: str
    server: Server | None
    directory: Path
    queue: str = field(default_factory=lambda: f"bench-{secrets.token_hex(4)}")
    _made: int = 0
    _reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self._reader = Reader(self.directory)

    def produce(self, plan: Plan, *, timeout: float = 300.0) -> Produced:
        """Run a producer to its end."""
        return self.start_producing(plan).result(timeout=timeout)

    def start_producing(self, plan: Plan, *, barrier: bool = False) -> Producing:
        """Start a producer; behind the *barrier* it waits for `let_go` too."""
        self._made += 1
        result = self.directory / f"producer-{self._made}.json"
        command = python_module(f"{_MODULE}.producer", str(result), plan.to_json())
        told = {"BENCH_BARRIER": "1"} if barrier else {}
        return Producing(self._start(command, result.with_suffix(".log"), told), result)

    @contextlib.contextmanager
    def workers(
        self,
        *,
        processes: int = 1,
        threads: int = THREADS,
        in_process: bool = False,
        barrier: bool = False,
        beside: int = 0,
        fill: int = 0,
        wrapper: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Iterator[Workers]:
        """Workers, stopped at the end.

        Args:
            in_process: A dramatiq Worker in one process of ours, instead of the system's command.
            barrier: They begin when `let_go` says so; returns when all have come there.
            beside: Producers that wait there too.
            fill: Messages that an in-process worker enqueues for itself.
            wrapper: A program that runs their command.
        """
        if in_process:
            command = python_module(f"{_MODULE}.worker", str(threads), str(fill))
        else:
            command = self.system.worker_command(_APP, processes=processes, threads=threads)
        told = {**(environment or {}), **({"BENCH_BARRIER": "1"} if barrier else {})}
        self._made += 1
        log = self.directory / f"workers-{self._made}.log"
        workers = Workers(self._start([*wrapper, *command], log, told), log)
        try:
            if barrier:
                self._wait_for_barrier(processes + beside, workers)
            yield workers
        except AssertionError as error:
            raise AssertionError(f"{error}\n{workers.log[-2000:]}") from error
        finally:
            workers.stop()

    def let_go(self) -> None:
        """Let the workers behind the barrier begin."""
        (self.directory / "go").touch()

    def warm_up(self, processes: int = 1) -> None:
        """Return when each worker process has run something."""
        for _ in range(_WARM_UP_ROUNDS):
            before = self._reader.count()
            sent = 20 * processes
            self.produce(Plan(count=0, warm_up=sent))
            self.wait_for(before + sent, timeout=30)
            if len(self.pids()) >= processes:
                return
        raise AssertionError(f"not all of {processes} worker processes run messages")

    def wait_for(self, count: int, *, timeout: float = 120.0, interval: float = 0.05) -> None:
        """Wait until there have been *count* starts, those for warming up included."""
        wait_until(
            lambda: self._reader.count() >= count,
            timeout=timeout,
            interval=interval,
            message=f"{count} starts of {self.system.title} ({self._reader.count()} at first)",
        )

    def count(self) -> int:
        """How many starts there have been, those for warming up included."""
        return self._reader.count()

    def pids(self) -> list[int]:
        """The worker processes that have run something."""
        return self._reader.pids()

    def starts(self) -> list[Start]:
        """Every start so far but those for warming up, in the order of their times."""
        return [one for one in self._reader.starts() if one.number >= 0]

    def check(self, expected: Iterable[int]) -> list[Start]:
        """Every start, once it is certain that each of *expected* has started exactly once.

        Raises:
            LostOrTwice: It has not.
        """
        starts = self.starts()
        check_each_once(starts, expected)
        return starts

    def close(self) -> None:
        """Stop the server and remove the directory."""
        self._reader.close()
        if self.server is not None:
            self.server.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _wait_for_barrier(self, count: int, workers: Workers) -> None:
        def are_there() -> bool:
            code = workers.process.poll()
            assert code is None, f"the workers have ended with {code}"
            return len(list(self.directory.glob("*.ready"))) >= count

        wait_until(are_there, timeout=60, message=f"{count} processes at the barrier")

    def _start(
        self, command: list[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        told = {
            "BENCH_SYSTEM": f"{self.system.__module__}:{self.system.__name__}",
            "BENCH_URL": self.url,
            "BENCH_QUEUE": self.queue,
            "BENCH_DIRECTORY": str(self.directory),
            "PYTHONPATH": str(ROOT),
            **(environment or {}),
        }
        return start_process(command, log=log, cwd=ROOT, environment=told)


@dataclass(frozen=True, slots=True)
class Producing:
    """A producer that is at work."""

    process: subprocess.Popen[bytes]
    path: Path

    def result(self, *, timeout: float = 300.0) -> Produced:
        """What it has sent, once it has ended."""
        code = self.process.wait(timeout)
        if code or not self.path.exists():
            log = self.path.with_suffix(".log").read_text(errors="replace")
            raise AssertionError(f"a producer ended with {code}:\n{log[-2000:]}")
        return Produced.read(self.path)


def new_directory() -> Path:
    """A directory in memory, if there is such a place: what the ledgers write costs no disk."""
    memory = Path("/dev/shm")
    usable = sys.platform == "linux" and os.access(memory, os.W_OK)
    return Path(tempfile.mkdtemp(prefix="bench-", dir=memory if usable else None))


def cpu_seconds(process: psutil.Process) -> float:
    """Seconds of CPU that *process* has used by itself."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
