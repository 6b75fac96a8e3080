"""The processes of a soak: workers and senders, each behind a proxy of its own, started again.

Whoever ends a process says so before; one that ended by itself is noted as such.
"""

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from dramatiq.logging import get_logger

from tests.support.cli import DramatiqCommand
from tests.support.processes import start_process
from tests.support.proxy import FaultyProxy
from tests.support.waiting import wait_until

from .crew import Settings
from .journal import Journal

_ROOT = Path(__file__).parents[2]
_SOURCE = f"""
import sys
sys.path.append({str(_ROOT)!r})
from tests.soak.worker import broker
"""
_SENDER = f"import sys; sys.path.append({str(_ROOT)!r}); import tests.soak.sender as s; s.main()"
#: Of each worker process.
THREADS = 4
_LOOK_SECONDS = 0.1

_logger = get_logger(__name__)

#: How long a worker may take to end in good order: its longest actor, and a server that hangs.
STOP_SECONDS = 45.0


@dataclass(slots=True)
class Place:
    """Where one process after the other does the same; `command` is the one of now."""

    name: str
    settings: Settings
    proxy: FaultyProxy
    is_worker: bool
    environment: Mapping[str, str]
    generations: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    who: str = ""
    command: DramatiqCommand | subprocess.Popen[bytes] | None = None
    #: Held by whoever starts or ends its process.
    lock: threading.RLock = field(default_factory=threading.RLock)

    def start(self, directory: Path) -> None:
        """Start the next process."""
        self.who = f"{self.name}.{next(self.generations)}"
        environment = {
            **replace(self.settings, who=self.who).environment(),
            **self.environment,
        }
        home = directory / self.who
        if self.is_worker:
            self.command = DramatiqCommand(
                _SOURCE, directory=home, threads=THREADS, environment=environment
            )
            return
        home.mkdir()
        self.command = start_process(
            [sys.executable, "-c", _SENDER], log=home / "log", cwd=home, environment=environment
        )

    @property
    def returncode(self) -> int | None:
        """The exit code of its process, None while it runs."""
        if isinstance(self.command, subprocess.Popen):
            return self.command.poll()
        return None if self.command is None else self.command.returncode

    def pid(self) -> int | None:
        """The process that works or sends; None while there is none."""
        if isinstance(self.command, DramatiqCommand):
            return next(iter(self.command.worker_pids), None)
        return None if self.command is None or self.returncode is not None else self.command.pid


class Crowd:
    """All *places*; a thread starts again whoever has ended."""

    def __init__(self, places: list[Place], journal: Journal, directory: Path) -> None:
        self.places = places
        #: What went wrong that no fault explains.
        self.complaints: list[str] = []
        self._journal = journal
        self._directory = directory
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._attend, name="crowd", daemon=True)

    @property
    def workers(self) -> list[Place]:
        """The places of workers."""
        return [place for place in self.places if place.is_worker]

    @property
    def senders(self) -> list[Place]:
        """The places of senders."""
        return [place for place in self.places if not place.is_worker]

    def start(self) -> None:
        """Start all of them."""
        for place in self.places:
            place.start(self._directory)
        self._thread.start()

    @contextmanager
    def handled(self, place: Place) -> Iterator[int | None]:
        """Nobody else starts or ends the process of *place* meanwhile; yields its pid."""
        with place.lock:
            yield place.pid()

    def kill(self, place: Place, *, whole_command: bool = False) -> None:
        """SIGKILL to the process that works or sends, or to all of its command."""
        with self.handled(place) as pid:
            if pid is None:
                return
            self._journal.note("killed", who=place.who)
            if whole_command and isinstance(place.command, DramatiqCommand):
                place.command.kill()
            else:
                send_signal(pid, signal.SIGKILL)

    def terminate(self, place: Place) -> None:
        """SIGTERM to a worker, and wait for its end; then its place is empty."""
        with self.handled(place) as pid:
            command = place.command
            if pid is None or not isinstance(command, DramatiqCommand):
                return
            self._journal.note("terminated", who=place.who)
            try:
                command.stop(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.complaints.append(f"{place.who} did not end within {STOP_SECONDS} s")
                self._journal.note("killed", who=place.who)
                command.kill()
            self._journal.note("ended", who=place.who)
            place.command = None

    def stop_senders(self, *, timeout: float) -> None:
        """Wait until the senders, who were told to stop, have ended."""

        def have_ended() -> bool:
            return all(place.returncode == 0 for place in self.senders)

        wait_until(have_ended, timeout=timeout, interval=_LOOK_SECONDS, message="senders ended")

    def end(self) -> None:
        """End whoever is left, workers in good order."""
        self._ending.set()
        self._thread.join()
        for place in self.workers:
            self.terminate(place)

    def close(self) -> None:
        """Kill whoever is left."""
        self._ending.set()
        for place in self.places:
            with place.lock:
                if place.command is not None:
                    place.command.kill()
            place.proxy.close()

    def _attend(self) -> None:
        while not self._ending.wait(_LOOK_SECONDS):
            for place in self.places:
                if place.lock.acquire(blocking=False):
                    try:
                        self._restart_if_ended(place)
                    finally:
                        place.lock.release()

    def _restart_if_ended(self, place: Place) -> None:
        code = place.returncode
        if place.command is not None and code is None:
            return
        if place.command is not None:
            if not place.is_worker and code == 0:  # it was told to stop, and has
                return
            self._journal.note("gone", who=place.who, code=code)
            if isinstance(place.command, DramatiqCommand):
                place.command.kill()  # whatever it has left behind
        place.start(self._directory)


def send_signal(pid: int, how: signal.Signals) -> None:
    """Send a signal to a process that may just have ended by itself."""
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        _logger.info("Process %d has ended before the signal %r.", pid, how)
