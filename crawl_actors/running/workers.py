"""The worker processes of a run: the `dramatiq` command, started again when it ends.

dramatiq's main process stops all workers when one of them dies, so a single killed worker means a
new start here. Messages of the dead one come back after its lease.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic

from dramatiq.cli import RET_KILLED
from dramatiq.logging import get_logger

from crawl_actors.lifeline import RunLifeline
from crawl_actors.running.folder import RunFolder

#: Starts in a row after each of which not one page was finished.
MOST_FAILED_STARTS = 5

_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 10.0
_LOG_LINES = 15


class WorkersFailed(Exception):
    """The workers end each time soon after they were started."""


class Workers:
    """The workers of one run.

    Args:
        folder: Where their log and their lifeline are.
        environment: Variables that tell them their server.
    """

    def __init__(
        self, folder: RunFolder, *, processes: int, threads: int, environment: Mapping[str, str]
    ) -> None:
        self.restarts = 0
        self._logger = get_logger(__name__, type(self))
        self._folder = folder
        self._command = [sys.executable, "-m", "dramatiq", "crawl_actors"]
        self._command += ["--processes", str(processes), "--threads", str(threads)]
        self._environment = {
            **os.environ,
            **environment,
            "CRAWL_ACTORS_LIFELINE": str(folder.lifeline),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: RunLifeline | None = None
        self._failures = 0
        self._finished_at_start = 0
        self._start_at = 0.0

    def tend(self, *, finished: int) -> None:
        """Start the workers, or start them again once they have ended.

        Args:
            finished: Pages finished so far; a start that finished none is a failed one.

        Raises:
            WorkersFailed: They ended too often without finishing a page.
        """
        if self._process is None:
            if monotonic() >= self._start_at:
                self._finished_at_start = finished
                self._start()
            return
        code = self._process.poll()
        if code is None:
            return
        self._clear()
        self.restarts += 1
        self._failures = 0 if finished > self._finished_at_start else self._failures + 1
        if self._failures >= MOST_FAILED_STARTS:
            raise WorkersFailed(
                f"the workers ended {self._failures} times without finishing a page, the last time"
                f" with exit code {code}; the end of {self._folder.log}:\n{self._log_end()}"
            )
        backoff = min(_FIRST_BACKOFF_S * 2**self._failures, _LONGEST_BACKOFF_S)
        self._logger.warning("%s; starting them again.", _ending(code))
        self._start_at = monotonic() + backoff

    def stop(self, *, timeout_s: float) -> None:
        """Let the workers finish the pages they are at, then end; killed after *timeout_s*.

        A KeyboardInterrupt meanwhile kills them at once.
        """
        if self._process is None:
            return
        try:
            self._process.terminate()
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._logger.warning("The workers did not stop in %r s; killing them.", timeout_s)
        finally:
            self._clear()

    def _start(self) -> None:
        self._lifeline = RunLifeline(self._folder.lifeline)
        with self._folder.log.open("ab") as log:
            # In a session of their own: Ctrl-C in the terminal is for the run, which stops them.
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _clear(self) -> None:
        """End what is left of the process group, and forget it."""
        process, lifeline = self._process, self._lifeline
        self._process = self._lifeline = None
        if process is not None:
            # Workers whose main process was killed live on in its group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if lifeline is not None:
            lifeline.close()

    def _log_end(self) -> str:
        text = self._folder.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-_LOG_LINES:])


def _ending(code: int) -> str:
    """How the workers ended, as far as the exit code of dramatiq's main process tells."""
    if code == RET_KILLED:
        return "A worker was killed, so all of them ended"
    if code < 0:
        return f"The workers' main process was killed by signal {-code}"
    return f"The workers ended with exit code {code}"
