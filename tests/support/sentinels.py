"""A master, a replica and three real sentinels that watch them, on loopback."""

import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from .binaries import Binary, find_binary
from .certificates import Certificates
from .processes import start_process
from .servers import Server, free_port
from .waiting import wait_until

SERVICE = "queues"
#: A master that is silent for this long is down.
DOWN_AFTER_MS = 1_000


class SentinelProcess:
    """One sentinel, watching the master on a port of loopback."""

    def __init__(
        self,
        directory: Path,
        config: Sequence[str],
        *,
        binary: Binary,
        certificates: Certificates | None = None,
    ) -> None:
        self.port = free_port()
        self._directory = directory
        self._log = directory / "log"
        path = directory / "sentinel.conf"
        port = certificates.settings(self.port) if certificates else [f"port {self.port}"]
        lines = ["bind 127.0.0.1", *port, f'dir "{directory}"', *config]
        path.write_text("\n".join([*lines, ""]))
        self._process: subprocess.Popen[bytes] = start_process(
            [binary.path, path, "--sentinel"],
            log=self._log,
            cwd=directory,
            environment=binary.environment,
        )

    @property
    def address(self) -> str:
        """Host and port, as in a URL."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """All it has printed."""
        return self._log.read_text(errors="replace")

    def pause(self) -> None:
        """SIGSTOP: it takes connections and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """SIGKILL, also while it is paused."""
        self._process.kill()
        self._process.wait(timeout=30)


class Deployment:
    """The service `SERVICE`: `master` and `replica`, as they are at first, and its `sentinels`.

    Args:
        config: More lines for both servers.
        password: Of the servers.
        sentinel_password: Of the sentinels.
        certificates: Servers and sentinels speak only TLS, with these.
        link: Given the master's port, the port that the replica is to connect to instead.
        failover_timeout_ms: After twice this time a failover that came to nothing is tried again,
            and after it a replica of anything else than the master is made one of the master.
    """

    def __init__(
        self,
        *,
        config: Sequence[str] = (),
        password: str = "",
        sentinel_password: str = "",
        certificates: Certificates | None = None,
        link: Callable[[int], int] = int,
        failover_timeout_ms: int = 5_000,
    ) -> None:
        self._binary = find_binary()
        self._cleanup = ExitStack()
        self._password = password
        self._sentinel_password = sentinel_password
        self._certificates = certificates
        self._failover_timeout_ms = failover_timeout_ms
        secret = [f"requirepass {password}", f"masterauth {password}"] if password else []
        settings = (*secret, "repl-timeout 60", *config)
        self.master = self._server(settings)
        self.master.start()
        follow = f"replicaof 127.0.0.1 {link(self.master.port)}"
        self.replica = self._server((*settings, follow))
        self.sentinels: list[SentinelProcess] = []

    def __enter__(self) -> Self:
        try:
            self.replica.start()
            self.sentinels += [self._start_sentinel() for _ in range(3)]
            wait_until(self._is_complete, timeout=30, interval=0.1, message="sentinels see all")
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._cleanup.close()

    @property
    def url(self) -> str:
        """A URL without passwords, which names all sentinels."""
        hosts = ",".join(sentinel.address for sentinel in self.sentinels)
        return f"{'sentinels' if self._certificates else 'sentinel'}://{hosts}/{SERVICE}"

    def ask(self, sentinel: SentinelProcess, *command: Any) -> Any:
        """What *sentinel* replies to `SENTINEL` with *command*."""
        authority = str(self._certificates.authority) if self._certificates else None
        with redis.Redis(
            host="127.0.0.1",
            port=sentinel.port,
            password=self._sentinel_password or None,
            decode_responses=True,
            socket_timeout=5,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            ssl=self._certificates is not None,
            ssl_ca_certs=authority,
        ) as client:
            return client.execute_command("SENTINEL", *command)

    def master_port(self) -> int:
        """The port of the master, as the first sentinel knows it."""
        reply = self.ask(self.sentinels[0], "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return int(reply[1])

    def wait_for_failover(self) -> None:
        """Wait until the first sentinel names the replica as the master."""
        wait_until(
            lambda: self.master_port() == self.replica.port,
            timeout=30,
            interval=0.05,
            message="the replica is the master",
        )

    def _server(self, config: Sequence[str]) -> Server:
        server = Server(
            self._binary,
            config=config,
            appendonly=True,
            tcp=True,
            certificates=self._certificates,
        )
        self._cleanup.callback(server.close)
        return server

    def _start_sentinel(self) -> SentinelProcess:
        directory = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="ds-")))
        config = [
            f"sentinel monitor {SERVICE} 127.0.0.1 {self.master.port} 2",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {SERVICE} {self._failover_timeout_ms}",
        ]
        if self._password:
            config.append(f"sentinel auth-pass {SERVICE} {self._password}")
        if self._sentinel_password:
            config.append(f"requirepass {self._sentinel_password}")
        started = SentinelProcess(
            directory, config, binary=self._binary, certificates=self._certificates
        )
        self._cleanup.callback(started.kill)
        return started

    def _is_complete(self) -> bool:
        return all(self._sees_all(sentinel) for sentinel in self.sentinels)

    def _sees_all(self, sentinel: SentinelProcess) -> bool:
        try:
            flat = self.ask(sentinel, "MASTER", SERVICE)
            replicas = self.ask(sentinel, "REPLICAS", SERVICE)
        except redis.RedisError:
            return False
        state = flat if isinstance(flat, dict) else dict(zip(*[iter(flat)] * 2, strict=True))
        others = int(state["num-other-sentinels"])
        return others == 2 and state["flags"] == "master" and _are_up(replicas)


def _are_up(replicas: Sequence[Any]) -> bool:
    states = [
        r if isinstance(r, dict) else dict(zip(*[iter(r)] * 2, strict=True)) for r in replicas
    ]
    return len(states) == 1 and all(
        state["flags"] == "slave" and state["master-link-status"] == "ok" for state in states
    )
