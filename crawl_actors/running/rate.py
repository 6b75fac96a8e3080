"""How fast a run is at the moment."""

from __future__ import annotations

from collections import deque
from time import monotonic

#: What counts as the moment.
WINDOW_S = 10.0


class Rate:
    """Pages per second over the last `WINDOW_S` seconds, or since the first call of `measure`."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def measure(self, done: int, *, now: float | None = None) -> float:
        """The rate, given that *done* pages are finished by *now*, by default by this instant."""
        instant = monotonic() if now is None else now
        self._points.append((instant, done))
        while len(self._points) > 1 and self._points[1][0] <= instant - WINDOW_S:
            self._points.popleft()
        since, before = self._points[0]
        return (done - before) / max(instant - since, 0.1)
