"""Signals that stop a command; none is lost where Python drops what a finalizer raises."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from crawl_actors.running import Interrupted

#: Seconds after which the finalizer that was interrupted has most likely ended.
_AGAIN_SECONDS = 0.02


def raise_interrupted(number: int, _frame: FrameType | None) -> None:
    """Handle the signal *number*: what runs is told to stop.

    Raises:
        Interrupted: Always.
    """
    raise Interrupted(number)


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Send a signal again whose KeyboardInterrupt fell into a finalizer, which cannot pass it on.

    See the documentation of Python's `signal` module on handlers that raise.
    """
    before = sys.unraisablehook

    def again(dropped: sys.UnraisableHookArgs) -> None:
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            before(dropped)
            return
        number = getattr(dropped.exc_value, "number", signal.SIGINT)
        resend = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
        resend.daemon = True
        resend.start()

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before
