"""A private server on a unix socket, and on a loopback port when asked, in its own directory."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from .binaries import Binary, find_binary
from .certificates import Certificates
from .processes import start_process
from .users import User
from .waiting import wait_until

# A socket's path may have 107 bytes; test directories of pytest are often longer.
_SOCKET_PATH_LIMIT = 107
_PORT_ATTEMPTS = 5


class ServerFailed(Exception):
    """The server ended while it was starting; the message ends with its log."""


class Server:
    """One real server process, stopped and removed when its context ends.

    Args:
        binary: Which server; by default the one `TEST_SERVER` names.
        config: More lines for its configuration file, as in `"maxmemory 100mb"`.
        appendonly: Keep every write through a SIGKILL, as the embedded server does.
        tcp: Listen on a free port of 127.0.0.1 too.
        certificates: Speak only TLS there; see `Binary.has_tls`.
        user: Whom its URLs are for, by default the one who may do everything.
    """

    def __init__(
        self,
        binary: Binary | None = None,
        *,
        config: Sequence[str] = (),
        appendonly: bool = False,
        tcp: bool = False,
        certificates: Certificates | None = None,
        user: User | None = None,
    ) -> None:
        self.binary = binary or find_binary()
        self.user = user
        self.port = 0
        self._config = tuple(config)
        self._appendonly = appendonly
        self._tcp = tcp
        self._certificates = certificates
        self._process: subprocess.Popen[bytes] | None = None
        self._answers_loading = False
        self._clients: list[redis.Redis] = []
        self._directory = Path(tempfile.mkdtemp(prefix="ds-"))
        if len(os.fsencode(self.socket)) > _SOCKET_PATH_LIMIT:
            shutil.rmtree(self._directory)
            raise ValueError(
                f"{self.socket} is too long for a socket; set TMPDIR to a shorter path"
            )

    def __enter__(self) -> Self:
        try:
            self.start()
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

    @property
    def socket(self) -> str:
        """The path of its unix socket; the same after each restart."""
        return str(self._directory / "s")

    @property
    def url(self) -> str:
        """A URL over the unix socket."""
        return f"unix://{self.credentials}{self.socket}"

    @property
    def admin_url(self) -> str:
        """A URL over the unix socket, of the user who may do everything."""
        return f"unix://{self.socket}"

    @property
    def credentials(self) -> str:
        """What the URL of a user other than the default has before the place."""
        return self.user.credentials if self.user else ""

    @property
    def tcp_url(self) -> str:
        """A URL over loopback TCP; only for a server made with `tcp=True`."""
        if not self._tcp:
            raise ValueError("this server has no port: start it with tcp=True")
        scheme = "rediss" if self._certificates else "redis"
        return f"{scheme}://{self.credentials}127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise ValueError("the server is not running")
        return self._process.pid

    @property
    def log(self) -> str:
        """All it has printed since it was first started."""
        path = self._directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def client(self, **options: Any) -> redis.Redis:
        """A new client over the unix socket, closed with the server; it may do everything.

        Args:
            options: Those of redis-py.
        """
        client = redis.Redis(unix_socket_path=self.socket, **options)
        self._clients.append(client)
        return client

    @contextlib.contextmanager
    def granting(self, rights: Iterable[str]) -> Iterator[Self]:
        """For as long as the context lasts, its user has *rights* too, as in `+set`.

        Only rights that the user does not have anyway; the default user has them all.
        """
        if self.user is None:
            yield self
            return
        lent = [right.removeprefix("+") for right in rights]
        if already := self.user.granted().intersection(lent):
            raise ValueError(f"{self.user.name!r} has {already} already, and would lose it")
        with redis.Redis(unix_socket_path=self.socket) as client:
            client.execute_command("ACL", "SETUSER", self.user.name, *(f"+{each}" for each in lent))
            yield self
            client.execute_command("ACL", "SETUSER", self.user.name, *(f"-{each}" for each in lent))

    @property
    def refusals(self) -> list[dict[str, str]]:
        """What it has refused to its user, from its `ACL LOG`; nothing for the default user."""
        if self.user is None:
            return []
        with redis.Redis(unix_socket_path=self.socket, decode_responses=True) as client:
            return [each for each in client.acl_log() if each["username"] == self.user.name]

    def start(self, *, wait_until_loaded: bool = True) -> None:
        """Start it, and return when it answers and has loaded its data; nothing if it runs."""
        if self._process is not None:
            return
        self._answers_loading = not wait_until_loaded
        if not self._tcp or self.port:
            self._start_once()
            return
        for _ in range(_PORT_ATTEMPTS):
            self.port = free_port()
            try:
                self._start_once()
            except ServerFailed as error:
                self.port = 0
                # Somebody else may take the port between our asking for it and the server's bind.
                if "in use" not in str(error):
                    raise
            else:
                return
        raise ServerFailed(f"none of {_PORT_ATTEMPTS} ports was still free for {self.binary.name}")

    def stop(self) -> None:
        """End it in order: with `appendonly` nothing is lost, otherwise everything is."""
        if self._process is not None:
            self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: it loses what it had not written."""
        if self._process is not None:
            self._end(signal.SIGKILL)

    def restart(self, *, keep_data: bool = True) -> None:
        """Stop and start on the same addresses, with all its data or with none."""
        if keep_data and not self._appendonly and self._process is not None:
            self.client().save()
        self.stop()
        if not keep_data:
            self._remove_data()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered until `resume`."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill it, close the clients and remove its directory; may be called again."""
        self.kill()
        for client in self._clients:
            client.close()
        self._clients.clear()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start_once(self) -> None:
        Path(self.socket).unlink(missing_ok=True)
        printed = len(self.log)
        configuration = self._directory / "conf"
        configuration.write_text("\n".join([*self._settings(), *self._config, ""]))
        self._process = start_process(
            [self.binary.path, configuration],
            log=self._directory / "log",
            cwd=self._directory,
            environment=self.binary.environment,
        )
        try:
            wait_until(self._is_ready, timeout=30, message=f"{self.binary.name} answers PING")
        except AssertionError as error:
            self.kill()
            raise ServerFailed(f"{error}\n{self.log[printed:]}") from error

    def _settings(self) -> list[str]:
        certificates = self._certificates
        port = certificates.settings(self.port) if certificates else [f"port {self.port}"]
        return [
            *port,
            "bind 127.0.0.1",
            f'unixsocket "{self.socket}"',
            "unixsocketperm 700",
            f'dir "{self._directory}"',
            'save ""',
            f"appendonly {'yes' if self._appendonly else 'no'}",
            # With `everysec` a slow fsync postpones writes by up to two seconds.
            "appendfsync always",
            "daemonize no",
            # Otherwise a master waits for five seconds whether more replicas come.
            "repl-diskless-sync-delay 0",
            *([self.user.line(self.binary.name)] if self.user else []),
        ]

    def _is_ready(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            code, self._process = self._process.returncode, None
            raise ServerFailed(f"{self.binary.name} ended with {code}:\n{self.log[-4000:]}")
        once = Retry(NoBackoff(), 0)
        with redis.Redis(unix_socket_path=self.socket, socket_timeout=5, retry=once) as client:
            try:
                return bool(client.ping())
            except redis.BusyLoadingError:
                return self._answers_loading
            except redis.AuthenticationError:  # its configuration asks for a password
                return True
            except (redis.ConnectionError, redis.TimeoutError):  # not listening, or still loading
                return False

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)  # a paused process takes no SIGTERM
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=30)

    def _remove_data(self) -> None:
        for path in self._directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in {"conf", "log"}:
                path.unlink()


def free_port() -> int:
    """A free port below those of outgoing connections; a cluster's bus has one 10000 above it."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as probe, contextlib.suppress(OSError):  # this one is taken
            probe.bind(("127.0.0.1", port))
            return port
