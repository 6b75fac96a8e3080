"""Starting and ending the processes that tests need: servers, and dramatiq's command line."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_MORTAL = Path(__file__).with_name("mortal.py")

# The kernel's parent-death signal follows the thread that forked, not its process: everything is
# started from one thread that lives as long as the process does.
_LAUNCHER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="launcher")


def start_process(
    command: Sequence[str | Path],
    *,
    log: Path,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    new_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start *command*, its output appended to *log*; it is killed when the test run ends."""
    program = [sys.executable, "-I", "-S", str(_MORTAL), str(os.getpid()), *map(str, command)]
    with log.open("ab") as output:
        return _LAUNCHER.submit(
            subprocess.Popen,
            program,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=new_session,
        ).result()
