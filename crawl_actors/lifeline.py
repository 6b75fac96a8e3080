"""Ends worker processes whose `crawl-actors run` has died, however it died.

The run holds a named pipe open for writing and every worker process reads from it: when the run is
gone, the read ends. A name works where an inherited descriptor does not: workers may be forked,
spawned or come from a fork server. One byte in the pipe picks the worker that stops dramatiq's main
process, which must get the signal once: the second would make it abandon pages at work.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, Self

from dramatiq.logging import get_logger
from dramatiq.middleware import Middleware

_POLL_S = 1.0

#: Longer than any page takes, so that workers which are stopping anyway are not hurried.
_PATIENCE_S = 60.0


class RunLifeline:
    """The run's end of the pipe at *path*; closing it, or dying, ends the workers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        # For reading too: opening for writing alone waits for a reader, who is yet to be started.
        self._descriptor = os.open(path, os.O_RDWR)
        os.write(self._descriptor, b"!")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go; workers that are still there stop."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self.path.unlink(missing_ok=True)


class Lifeline(Middleware):
    """Makes a worker process end when the run that holds *path* is gone; None: never."""

    def __init__(self, path: str | None) -> None:
        self.logger = get_logger(__name__, type(self))
        self.path = path

    def after_process_boot(self, broker: Any) -> None:
        """Start to watch."""
        if self.path:
            # Another process may be our parent by the time the thread runs.
            parent = os.getppid()
            threading.Thread(target=self._watch, args=(self.path, parent), daemon=True).start()

    def _watch(self, path: str, parent: int) -> None:
        is_chosen = _wait_for_end(path)
        self.logger.warning("The run that started this worker is gone; stopping.")
        if is_chosen and os.getppid() == parent:
            os.kill(parent, signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE_S
        while os.getppid() == parent and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        # The main process died without stopping its workers, or nobody was picked to tell it.
        os.kill(os.getpid(), signal.SIGTERM)


def _wait_for_end(path: str) -> bool:
    """Block until the pipe's writer is gone; True for the one reader that got its byte."""
    try:
        # Without O_NONBLOCK this would wait for a writer, for ever if the run has died already.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        os.set_blocking(descriptor, True)
        is_chosen = False
        while os.read(descriptor, 1):
            is_chosen = True
        return is_chosen
    finally:
        os.close(descriptor)
