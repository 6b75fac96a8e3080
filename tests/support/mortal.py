"""Ties a process's life to its parent's, so that nothing a test started outlives a killed test run.

Run as a program it becomes another one: `python mortal.py PARENT_PID PROGRAM ARGUMENT...`. Imported
in a worker process, as the module named by the command line helper is, it ties that process to
the dramatiq command. Linux only; elsewhere both do nothing more than they would without.
"""

import ctypes
import multiprocessing
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """SIGKILL for this process when the *thread* that started it ends; end now if it has."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    # A test run in the background of a script ignores Ctrl-C, and its children would too.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(sys.argv[2], sys.argv[2:])
elif parent := multiprocessing.parent_process():
    # In a worker process; not in whatever else imports this, such as a type checker or pytest.
    die_with_parent(parent.pid or os.getppid())
