"""Milliseconds of this machine: the one thing that tests replace.

Decisions about messages use the server's clock, inside the scripts; these are for waiting.
"""

from __future__ import annotations

import time


def monotonic_ms() -> float:
    """Milliseconds that never go back, for measuring how long something took."""
    return time.monotonic() * 1000


def wall_ms() -> int:
    """Milliseconds since 1970 as this machine has them."""
    return int(time.time() * 1000)
