"""A private RabbitMQ node: its own directory, ports, name and cookie. Paused while others run."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.support.processes import start_process
from tests.support.servers import free_port
from tests.support.waiting import wait_until

_PLACES = ("/usr/lib/rabbitmq/lib", "/usr/local/lib/rabbitmq/lib", "/opt/rabbitmq")
_START_TIMEOUT = 90.0


class RabbitmqMissing(Exception):
    """There is no RabbitMQ on this machine, or it does not start."""


class RabbitmqServer:
    """A RabbitMQ node on loopback, paused (SIGSTOP) but within `running`."""

    def __init__(self) -> None:
        self._program = _find()
        self._directory = Path(tempfile.mkdtemp(prefix="bench-rabbitmq-"))
        self.port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """Its AMQP URL."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}"

    @property
    def version(self) -> str:
        """As its directory has it."""
        return self._program.parents[1].name.partition("-")[2]

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let it run; paused again at the end, so that it takes nothing from the others."""
        self._signal(signal.SIGCONT)
        try:
            wait_until(self._answers, timeout=30, message="RabbitMQ answers again")
            yield
        finally:
            self._signal(signal.SIGSTOP)

    def close(self) -> None:
        """Kill it and its epmd, and remove its directory."""
        for process in self._tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for child in self._processes:
            child.wait(30)
        self._processes.clear()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self) -> None:
        epmd_port = free_port()
        epmd = shutil.which("epmd")
        if epmd is None:
            raise RabbitmqMissing("there is no epmd")
        command = [epmd, "-port", str(epmd_port), "-address", "127.0.0.1"]
        log = self._directory / "log"
        self._processes.append(start_process(command, log=log, cwd=self._directory))
        environment = self._environment(epmd_port)
        self._processes.append(
            start_process([self._program], log=log, cwd=self._directory, environment=environment)
        )
        try:
            wait_until(self._is_ready, timeout=_START_TIMEOUT, interval=0.2, message="RabbitMQ")
        except AssertionError as error:
            raise RabbitmqMissing(f"{error}\n{log.read_text(errors='replace')[-2000:]}") from error
        self._signal(signal.SIGSTOP)

    def _environment(self, epmd_port: int) -> dict[str, str]:
        here = self._directory
        (here / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        (here / "plugins").write_text("[].\n")
        (here / "env.conf").write_text("")
        return {
            "HOME": str(here),
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench-{os.getpid()}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_BASE": str(here),
            "RABBITMQ_MNESIA_BASE": str(here / "mnesia"),
            "RABBITMQ_LOG_BASE": str(here / "logs"),
            "RABBITMQ_CONFIG_FILE": str(here / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": str(here / "env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(here / "plugins"),
            "RABBITMQ_PID_FILE": str(here / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none"
            ),
        }

    def _is_ready(self) -> bool:
        for process in self._processes:
            if (code := process.poll()) is not None:
                raise RabbitmqMissing(f"RabbitMQ or its epmd ended with {code}")
        return self._answers()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as probe:
                probe.sendall(b"AMQP\x00\x00\x09\x01")
                return bool(probe.recv(1))
        except OSError:
            return False

    def _tree(self) -> list[psutil.Process]:
        found = []
        for process in self._processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                root = psutil.Process(process.pid)
                found += [*root.children(recursive=True), root]
        return found

    def _signal(self, how: signal.Signals) -> None:
        for process in self._tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(how)


def _find() -> Path:
    for place in _PLACES:
        for program in sorted(Path(place).glob("rabbitmq_server-*/sbin/rabbitmq-server")):
            return program
    raise RabbitmqMissing("there is no rabbitmq-server on this machine")
