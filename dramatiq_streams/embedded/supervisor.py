"""The process that keeps one embedded server: starts it, counts its clients, stops it.

A script of its own (`python -I -S supervisor.py DIRECTORY SERVER IDLE_TIMEOUT`), with nothing but
the standard library and little of that: it starts in milliseconds, stays small, and does not
depend on how its starter came to find its modules.

The rules it keeps:

* `running.lock` is held by this process *and* by the server, which inherits it. The kernel frees
  it when both are gone, however they went. So two servers never write to one directory, and no
  file left behind by a crash blocks anybody.
* The server never outlives this process (on Linux; elsewhere a supervisor that was killed with
  SIGKILL leaves a server that works, and that `stop` ends).
* A server is stopped for want of clients only after the door was closed and nobody was inside.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

SOCKET_NAME = "valkey.sock"
RUNNING_LOCK_NAME = "running.lock"
EXIT_ALREADY_RUNNING = os.EX_TEMPFAIL

_CLOSED_SOCKET_NAME = "valkey.sock.closed"
_SERVER_OPTIONS = (
    *("--port", "0", "--unixsocket", SOCKET_NAME, "--unixsocketperm", "700"),
    *("--appendonly", "yes", "--appendfsync", "everysec", "--aof-load-truncated", "yes"),
    *("--save", "", "--dir", ".", "--daemonize", "no", "--logfile", ""),
)
_LOCK_WAIT_S = 0.5
_START_WAIT_S = 60.0
_STOP_WAIT_S = 30.0
_POLL_INTERVAL_S = 1.0
_ANSWER_WAIT_S = 5.0
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Return once the server can be connected to; what watches it stays behind.

    Returns:
        0 when a server was started, `EXIT_ALREADY_RUNNING` when the directory has one, else 1.
    """
    directory, binary, idle_timeout = arguments
    os.chdir(directory)
    os.umask(0o077)
    # The mask is inherited from whoever started us, who may have blocked SIGTERM.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    running = _take_running_lock()
    if running is None:
        return EXIT_ALREADY_RUNNING
    hear_ready, say_ready = os.pipe()
    if os.fork() != 0:
        # Whoever started us waits for this process only; the other one is no child of theirs.
        os.close(say_ready)
        return 0 if os.read(hear_ready, 1) else 1
    os.close(hear_ready)
    _supervise(binary, running=running, idle_timeout_s=float(idle_timeout), say_ready=say_ready)
    return 0


def _take_running_lock() -> int | None:
    lock = os.open(RUNNING_LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Perhaps the last server is about to be gone, or someone is only looking.
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.01)
        else:
            return lock


def _supervise(binary: str, *, running: int, idle_timeout_s: float, say_ready: int) -> None:
    signals = Signals()
    server = subprocess.Popen(
        [binary, *_SERVER_OPTIONS],
        stdin=subprocess.DEVNULL,
        pass_fds=(running,),
        preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - this process has one thread.
    )
    _report(f"supervisor {os.getpid()} started server {server.pid}")
    try:
        census = Census()
        if _wait_for_socket(server, census, signals):
            _say(say_ready)
            reason = _watch(server, census, signals, idle_timeout_s=idle_timeout_s)
            _report(f"supervisor {os.getpid()} ends: {reason}")
    finally:
        _stop(server)
        for name in (SOCKET_NAME, _CLOSED_SOCKET_NAME):
            if os.path.lexists(name):
                os.unlink(name)


def _die_with(parent: int) -> Callable[[], None] | None:
    """What the server's process does first, so that it never outlives *parent*."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def ask_for_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return ask_for_signal


def _wait_for_socket(server: subprocess.Popen[bytes], census: Census, signals: Signals) -> bool:
    deadline = time.monotonic() + _START_WAIT_S
    while server.poll() is None and not signals.told_to_stop:
        if census.connect():
            return True
        if time.monotonic() >= deadline:
            _report(f"server {server.pid} opened no socket within {_START_WAIT_S:g} seconds")
            return False
        signals.wait(0.005)
    return False


def _say(say_ready: int) -> None:
    try:
        os.write(say_ready, b"1")
    except BrokenPipeError:
        _report("whoever asked for the server did not wait for it")
    os.close(say_ready)


def _watch(
    server: subprocess.Popen[bytes], census: Census, signals: Signals, *, idle_timeout_s: float
) -> str:
    """Return, with the reason, once the server has stopped or should."""
    poll_interval_s = min(_POLL_INTERVAL_S, max(0.05, idle_timeout_s / 4))
    before = census.take()
    idle_since = time.monotonic()
    while True:
        signals.wait(poll_interval_s)
        if server.poll() is not None:
            return f"server {server.pid} has ended with status {server.returncode}"
        if signals.told_to_stop:
            return "told to stop"
        if not os.path.lexists(SOCKET_NAME):
            # Nobody new can reach this server: make room for one that can be reached.
            return "the socket was removed"
        now = census.take()
        if now is None or now != before or now[0] > 0:
            before, idle_since = now, time.monotonic()
        elif time.monotonic() - idle_since >= idle_timeout_s and _close_door(census, now):
            return f"no client for {idle_timeout_s:g} seconds"


def _close_door(census: Census, expected: tuple[int, int]) -> bool:
    """Let nobody in any more, then look again whether anybody is inside.

    Twice, because the server may answer before it accepts those who were already waiting at the
    socket; it accepts them before it reads a question asked after that answer.
    """
    os.rename(SOCKET_NAME, _CLOSED_SOCKET_NAME)
    if census.take() == expected and census.take() == expected:
        return True
    os.rename(_CLOSED_SOCKET_NAME, SOCKET_NAME)
    return False


def _stop(server: subprocess.Popen[bytes]) -> None:
    # On SIGTERM the server writes out and syncs its append-only file before it ends.
    if server.poll() is None:
        server.terminate()
    try:
        server.wait(_STOP_WAIT_S)
    except subprocess.TimeoutExpired:
        _report(f"server {server.pid} did not stop within {_STOP_WAIT_S:g} seconds: killing it")
        server.kill()
        server.wait()


def _report(text: str) -> None:
    now = time.strftime("%d %b %Y %H:%M:%S")
    sys.stderr.write(f"{os.getpid()}:S {now} * {text}\n")
    sys.stderr.flush()


class Signals:
    """Sleep that ends early when the server ends or when this process is told to stop."""

    def __init__(self) -> None:
        self.told_to_stop = False
        self._reader, writer = socket.socketpair()
        self._reader.setblocking(False)
        writer.setblocking(False)
        self._writer = writer
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def wait(self, seconds: float) -> None:
        """Return after *seconds*, or as soon as a signal has come."""
        ready, _, _ = select.select([self._reader], [], [], seconds)
        if ready:
            self._reader.recv(4096)

    def _stop(self, number: int, frame: object) -> None:
        self.told_to_stop = True


class Census:
    """How many clients the server has beside this one, and how many connections it ever had."""

    def __init__(self) -> None:
        self._connection: socket.socket | None = None

    def connect(self) -> bool:
        """Whether there is a connection now; a new one is made when there is none."""
        if self._connection is not None:
            return True
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_ANSWER_WAIT_S)
        try:
            connection.connect(SOCKET_NAME)
        except OSError:
            connection.close()
            return False
        self._connection = connection
        return True

    def take(self) -> tuple[int, int] | None:
        """None when the server does not answer, which says nothing about its clients."""
        if not self.connect() or self._connection is None:
            return None
        try:
            return self._ask(self._connection)
        except (OSError, ValueError) as error:
            # A late answer must not be taken for the answer to the next question.
            _report(f"the server did not say how many clients it has: {error!r}")
            self._connection.close()
            self._connection = None
            return None

    @staticmethod
    def _ask(connection: socket.socket) -> tuple[int, int]:
        connection.sendall(b"INFO clients stats\r\n")
        with connection.makefile("rb") as reader:
            header = reader.readline()
            if not header.startswith(b"$"):
                raise ValueError(header)
            lines = reader.read(int(header[1:]) + 2).decode().splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        try:
            return int(fields["connected_clients"]) - 1, int(fields["total_connections_received"])
        except KeyError as error:
            raise ValueError(f"no {error} in the answer") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
