"""Notices when the server's clock was set forward: then every lease seems to have expired.

Leases are idle times by the server's clock, and that may be wrong; machines' monotonic clocks are
not. While the two disagree nothing is recovered, until the living have extended their leases.
"""

from __future__ import annotations

from dramatiq.logging import get_logger

from . import clock

#: Later than any time that a server shows: nothing is known that speaks against it.
ANY_TIME_MS = 2**53


class SteadyClock:
    """The server's clock, as this process expects it to go on."""

    def __init__(self) -> None:
        self.logger = get_logger(__name__, type(self))
        #: How much later the server's clock may be than our monotonic one, at the most.
        self._ahead_ms: float | None = None
        self._distrusted_until_ms = 0.0

    def latest_ms(self, *, tolerance_ms: int) -> int:
        """What the server's clock may show now at the latest; 0 while it is not to be trusted."""
        now_ms = clock.monotonic_ms()
        if now_ms < self._distrusted_until_ms:
            return 0
        if self._ahead_ms is None:
            return ANY_TIME_MS
        return int(now_ms + self._ahead_ms + tolerance_ms)

    def note(self, server_ms: int, *, sent_ms: float, tolerance_ms: int) -> None:
        """The server's clock showed *server_ms* at some time since *sent_ms*, by our own.

        If that cannot be, it is distrusted for as long as *tolerance_ms*.
        """
        now_ms = clock.monotonic_ms()
        # At least so much later, and at most that much: a request or a reply may have been slow.
        least_ms, most_ms = server_ms - now_ms, server_ms - sent_ms
        known_ms, self._ahead_ms = self._ahead_ms, most_ms
        if known_ms is None or least_ms - known_ms <= tolerance_ms:
            return
        self._distrusted_until_ms = now_ms + tolerance_ms
        self.logger.warning(
            "The server's clock was set forward by %.1f seconds: expired leases are left alone"
            " until their holders have had time to extend them.",
            (least_ms - known_ms) / 1000,
        )
