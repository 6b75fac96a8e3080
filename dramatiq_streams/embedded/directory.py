"""The directory of an embedded server: its files, who may use it, how short its name can be.

Identity is the directory itself, never the spelling of its path: whatever leads to the same
directory leads to the same socket and the same locks.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile

import redis

from dramatiq_streams.embedded.supervisor import SOCKET_NAME

LOG_NAME = "server.log"

_MOST_LOG_BYTES = 1024 * 1024
# sizeof(sockaddr_un.sun_path), less the zero byte at its end.
_MOST_SOCKET_PATH_BYTES = (104 if sys.platform == "darwin" else 108) - 1


def prepare(directory: str) -> None:
    """Make *directory*, readable by its owner only, or check the one that is there.

    Raises:
        redis.ConnectionError: When it cannot be made or written, or when anybody may write there.
    """
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        mode = os.stat(directory).st_mode
    except OSError as error:
        raise redis.ConnectionError(
            f"cannot make the directory of the embedded server, {directory!r}: {error.strerror}"
        ) from error
    if mode & stat.S_IWOTH:
        raise redis.ConnectionError(
            f"every user may write to {directory!r} (mode {stat.S_IMODE(mode):o}), so it is not "
            "safe for an embedded server; name a directory of its own, which is made with mode 700"
        )
    if not os.access(directory, os.W_OK | os.X_OK):
        raise redis.ConnectionError(
            f"the directory of the embedded server, {directory!r}, is not writable by this user"
        )


def socket_address(directory: str) -> str:
    """A path of the server's socket in *directory* that is short enough to connect to.

    The limit of the system is on the path given, not on the one it leads to. So a long directory
    is reached through a link to it, named after its hash, in a private directory among the
    temporary files. The link is put back whenever a cleaner of temporary files took it.
    """
    address = os.path.join(directory, SOCKET_NAME)
    if _fits(address):
        return address
    links = _private_directory()
    link = os.path.join(links, hashlib.sha256(os.fsencode(directory)).hexdigest()[:16])
    address = os.path.join(link, SOCKET_NAME)
    if not _fits(address):
        raise redis.ConnectionError(
            f"{directory!r} is too long for a socket, and so is the link to it, {link!r}; "
            "use a shorter directory or a shorter TMPDIR"
        )
    try:
        os.symlink(directory, link)
    except FileExistsError:
        # Only this user can have put it there, and the hash says where it leads.
        return address
    return address


def rotated_log(directory: str) -> str:
    """The path of the server's log, which is empty again once it had grown long."""
    path = os.path.join(directory, LOG_NAME)
    if os.path.exists(path) and os.path.getsize(path) > _MOST_LOG_BYTES:
        os.replace(path, f"{path}.1")
    return path


def log_tail(directory: str, *, lines: int = 10) -> str:
    """The last lines of the server's log, for an error message."""
    try:
        with open(os.path.join(directory, LOG_NAME), "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 8192))
            text = log.read().decode(errors="replace")
    except OSError as error:
        return f"(its log cannot be read: {error})"
    return "\n".join(text.splitlines()[-lines:]) or "(its log is empty)"


def _fits(address: str) -> bool:
    return len(os.fsencode(address)) <= _MOST_SOCKET_PATH_BYTES


def _private_directory() -> str:
    path = os.path.join(tempfile.gettempdir(), f"dramatiq-streams-{os.geteuid()}")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        # Made before, perhaps by somebody else: the checks below decide.
        pass
    except OSError as error:
        raise redis.ConnectionError(
            f"cannot make {path!r}, for short links to long directories: {error.strerror}"
        ) from error
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise redis.ConnectionError(
            f"{path!r} must be a directory of user {os.geteuid()} with mode 700, but is of user "
            f"{found.st_uid} with mode {stat.S_IMODE(found.st_mode):o}; remove it"
        )
    return path
