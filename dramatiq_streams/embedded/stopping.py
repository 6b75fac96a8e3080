"""Stop the server of a directory when told to, whoever started it."""

from __future__ import annotations

import fcntl
import os
import socket
import time

import redis

from dramatiq_streams.embedded import directory as directories
from dramatiq_streams.embedded.supervisor import RUNNING_LOCK_NAME

_POLL_INTERVAL_S = 0.02


def stop(path: str | os.PathLike[str], *, timeout: float = 30.0) -> bool:
    """Stop the embedded server of the directory *path*, with all its data written out.

    A client that still uses it starts it again with its next command.

    Returns:
        Whether there was a server to stop. Neither it nor its supervisor is left.

    Raises:
        redis.ResponseError: When the server refuses.
        redis.TimeoutError: When it has not stopped after *timeout* seconds.
    """
    directory = os.path.abspath(os.path.expanduser(path))
    deadline = time.monotonic() + timeout
    was_running = was_asked = False
    while _is_running(directory):
        was_running = True
        connection = _connect_if_open(directories.socket_address(directory), timeout=timeout)
        if connection is not None:
            with connection:
                if was_asked:
                    # Servers of one directory never overlap: this is the next one.
                    return True
                _shut_down(connection, directory=directory)
                was_asked = True
        if time.monotonic() >= deadline:
            raise redis.TimeoutError(
                f"the embedded server of {directory!r} did not stop within {timeout:g} seconds; "
                f"its log ends with:\n{directories.log_tail(directory)}"
            )
        time.sleep(_POLL_INTERVAL_S)
    return was_running


def _is_running(directory: str) -> bool:
    """Whether a supervisor or a server of *directory* is there, or only about to be gone."""
    try:
        lock = os.open(os.path.join(directory, RUNNING_LOCK_NAME), os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def _connect_if_open(address: str, *, timeout: float) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    try:
        connection.connect(address)
    except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def _shut_down(connection: socket.socket, *, directory: str) -> None:
    try:
        connection.sendall(b"SHUTDOWN\r\n")
        answer = connection.recv(1024)
    except (ConnectionResetError, BrokenPipeError):
        # It stopped before it read us.
        return
    except TimeoutError as error:
        raise redis.TimeoutError(f"the embedded server of {directory!r} does not answer") from error
    if answer:
        text = answer.decode(errors="replace").strip()
        raise redis.ResponseError(f"the embedded server of {directory!r} did not stop: {text}")
