"""The real `dramatiq` command line in a subprocess, on a module written for one test."""

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from .processes import start_process
from .waiting import wait_until

_MORTAL = Path(__file__).with_name("mortal.py")
_READY = "Worker process is ready for action."
_STOP_TIMEOUT = 20.0


class DramatiqCommand:
    """`python -m dramatiq` with its worker processes; ends with the test, or by `stop` and `kill`.

    The module's source finds the server in `os.environ["TEST_URL"]` and the test's namespace in
    `os.environ["TEST_NAMESPACE"]`.

    Args:
        directory: An empty directory for the module and the log; also the working directory.
        arguments: More arguments for the command, as in `("--queues", "default")`.
        wrapper: Another program, which runs the command: then `pid` is its process, and the
            workers are found by it only if it becomes the command.
    """

    def __init__(
        self,
        source: str,
        *,
        directory: Path,
        processes: int = 1,
        threads: int = 2,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.processes = processes
        self._log = directory / "log"
        self._known: dict[int, psutil.Process] = {}
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "workers.py").write_text(source)
        shutil.copy(_MORTAL, directory / "mortal.py")
        command = [*wrapper, sys.executable, "-m", "dramatiq", "workers", "mortal"]
        command += ["--processes", str(processes), "--threads", str(threads)]
        # A worker killed while it boots is noticed, and anything printed, only after this time.
        command += ["--worker-fork-timeout", "5000", *arguments]
        # A session of its own: a Ctrl-C for pytest must not reach the workers before the test does.
        self._process = start_process(
            command,
            log=self._log,
            cwd=directory,
            environment={"PYTHONUNBUFFERED": "1", **(environment or {})},
            new_session=True,
        )
        self._known[self.pid] = psutil.Process(self.pid)

    @property
    def pid(self) -> int:
        """The dramatiq process that the workers are children of."""
        return self._process.pid

    @property
    def worker_pids(self) -> list[int]:
        """The worker processes that are alive, oldest first."""
        return [process.pid for process in self._children()]

    @property
    def log(self) -> str:
        """Everything printed so far, the module's own output included."""
        return self._log.read_text(errors="replace")

    @property
    def returncode(self) -> int | None:
        """The exit code of the dramatiq process, None while it runs."""
        return self._process.poll()

    def wait_until_booted(self, *, timeout: float = 20.0) -> None:
        """Return when each worker process consumes; a command that ended instead fails the test."""

        def is_decided() -> bool:
            return self.returncode is not None or self.log.count(_READY) >= self.processes

        try:
            wait_until(is_decided, timeout=timeout, interval=0.05, message="every worker booted")
            assert self.returncode is None, f"dramatiq ended with {self.returncode}"
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log}") from None

    def wait_for_log(self, text: str, *, timeout: float = 20.0) -> None:
        """Return when *text* has been printed."""
        try:
            wait_until(lambda: text in self.log, timeout=timeout, interval=0.05, message=text)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log}") from None

    def wait_until_ended(self, *, timeout: float = 20.0) -> int:
        """The exit code, once the dramatiq process has ended by itself.

        dramatiq does not always print what it logged last, so wait for this and not for the log.
        """
        return wait_until(
            lambda: None if self.returncode is None else (self.returncode,),
            timeout=timeout,
            interval=0.05,
            message="dramatiq ended",
        )[0]

    def stop(self, *, timeout: float = _STOP_TIMEOUT) -> int:
        """SIGTERM to the dramatiq process; its exit code, once all of its processes are gone."""
        self._children()
        if self.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout=timeout)
        psutil.wait_procs(list(self._known.values()), timeout=timeout)
        return code

    def kill(self) -> None:
        """SIGKILL to every process of it, at once."""
        self._children()
        for process in self._known.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(timeout=_STOP_TIMEOUT)
        psutil.wait_procs(list(self._known.values()), timeout=_STOP_TIMEOUT)

    def kill_worker(self, index: int = 0) -> int:
        """SIGKILL to one worker process, as the kernel's out-of-memory killer does; its pid.

        dramatiq itself then ends the others and exits: a worker lost this way takes all down.
        """
        pid = self.worker_pids[index]
        os.kill(pid, signal.SIGKILL)
        return pid

    def _children(self) -> list[psutil.Process]:
        """The living worker processes; they are remembered, so that `kill` finds orphans too."""
        try:
            children = psutil.Process(self.pid).children()
        except psutil.NoSuchProcess:
            return []
        self._known.update({child.pid: child for child in children})
        living = filter(_is_alive, children)
        return sorted(living, key=lambda child: (child.create_time(), child.pid))


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
