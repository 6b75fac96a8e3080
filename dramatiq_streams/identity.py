"""Which process this is, and whether another one on this host is provably gone.

A pid alone proves nothing: it is used again, and in another container it means another process.
So a process is named by its host (name, boot and pid namespace), its pid and its start time.
Where the system does not tell these (no Linux /proc), nothing is proved and the lease decides.
"""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class Identity:
    """A process as others on its host can check it."""

    pid: int
    #: Clock ticks since the boot, field 22 of /proc/PID/stat (proc(5)).
    started: int

    def __str__(self) -> str:
        return f"{self.pid} {self.started}"

    @classmethod
    def parse(cls, text: str) -> Identity | None:
        """Read what `str` wrote; None for anything else."""
        pid, _, started = text.partition(" ")
        if pid.isdecimal() and started.isdecimal():
            return cls(int(pid), int(started))
        return None

    @classmethod
    def own(cls) -> Identity | None:
        """This process; None where its start time is not to be had."""
        pid = os.getpid()
        state = _state(pid)
        # In a pid namespace of its own with its parent's /proc, pids are another's there.
        is_ours = state is not None and _pid_in_proc() == pid
        return cls(pid, state[1]) if state is not None and is_ours else None

    @property
    def is_gone(self) -> bool:
        """Whether the process has certainly ended. A stopped or a foreign one has not."""
        if not _is_used(self.pid):
            return True
        state = _state(self.pid)
        if state is None:
            return False  # /proc may hide other users' processes.
        code, started = state
        return started != self.started or code in "ZXx"


@lru_cache(maxsize=8)
def host_id(address: str) -> str | None:
    """A name for all processes that can check each other; None where they cannot.

    Args:
        address: This host's address as the server sees it: virtual machines that were cloned while
            they ran share all the rest.
    """
    try:
        boot, namespace = _BOOT_ID.read_text("ascii").strip(), os.readlink(_PID_NAMESPACE)
    except OSError:
        return None
    parts = "\n".join((socket.gethostname(), boot, namespace, address))
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def boot_name() -> str:
    """The name of this host and of its boot; of the host alone where boots have no names."""
    try:
        boot = _BOOT_ID.read_text("ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}"


def _is_used(pid: int) -> bool:
    """Whether there may be a process *pid*, this one or another."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # It is another user's; or no pid at all, and proves nothing.
    return True


def _pid_in_proc() -> int | None:
    """This process's pid as /proc counts."""
    try:
        return int(os.readlink("/proc/self"))
    except (OSError, ValueError):
        return None


def _state(pid: int) -> tuple[str, int] | None:
    """The state and the start time of *pid*, from /proc/PID/stat."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name, in parentheses, may contain anything.
    fields = text.rpartition(")")[2].split()
    return (fields[0], int(fields[19])) if len(fields) > 19 else None
