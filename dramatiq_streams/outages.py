"""One line in the log when the server fails this process, one when it serves again.

A worker has a thread for each queue, one for its leases, and those that run actors: all of them
notice an outage, and none of them ends with it.
"""

from __future__ import annotations

import random
import threading

from dramatiq.errors import ConnectionFailed
from dramatiq.logging import get_logger

from . import clock

#: Seconds until something that failed is tried again: at most at first, and at most at all.
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0

#: Seconds for a reply while the process stops, unless the socket timeout is shorter.
STOPPING_SECONDS = 5.0


class Outages:
    """What fails in this process, and since when."""

    def __init__(self) -> None:
        self.logger = get_logger(__name__, type(self))
        #: Whether a Worker runs. It answers an error by CRITICAL lines and by new consumers, one
        #: every three seconds, so it is spared; everybody else gets the error.
        self.are_ridden_out = False
        #: Whether a reply did not come in its time, and nothing has succeeded since.
        self.is_silent = False
        self._changing = threading.Lock()
        self._failing: set[str] = set()
        self._since_ms = 0.0

    @property
    def is_on(self) -> bool:
        """Whether the server is known to fail this process, or has not answered it."""
        return self.is_silent or bool(self._failing)

    def ride(self, deed: str, interrupting: threading.Event) -> Ride:
        """How one thread rides out the failures of *deed*."""
        return Ride(self, deed, interrupting)

    def note_failure(self, deed: str, error: Exception) -> None:
        """*deed*, as in "read queue 'default'", has failed; an outage begins if none is on."""
        with self._changing:
            is_first = not self._failing
            self._failing.add(deed)
            if is_first:
                self._since_ms = clock.monotonic_ms()
        if is_first:
            self.logger.warning("Cannot %s now; all is tried until it succeeds: %s", deed, error)

    def note_success(self, deed: str) -> None:
        """*deed* has succeeded; the outage is over if nothing else is known to fail."""
        self.is_silent = False
        if deed not in self._failing:
            return
        with self._changing:
            self._failing.discard(deed)
            is_over = not self._failing
        if is_over:
            seconds = (clock.monotonic_ms() - self._since_ms) / 1000
            self.logger.info("Can %s again, as all else, after %.1f seconds.", deed, seconds)


class Ride:
    """What one thread does in an outage: tries again, after longer and longer pauses.

    Args:
        deed: What it tries, as in "read queue 'default'".
        interrupting: Ends a pause when it is set.
    """

    def __init__(self, outages: Outages, deed: str, interrupting: threading.Event) -> None:
        self._outages = outages
        self._deed = deed
        self._interrupting = interrupting
        self._failures = 0

    def endure(self, error: Exception) -> None:
        """Wait until it is time to try again; not at all after the first failure in a row.

        A connection that was closed while nobody used it is no outage.

        Raises:
            Exception: *error*, where outages are not ridden out.
        """
        if not self._outages.are_ridden_out:
            raise error
        self._failures += 1
        if self._failures == 1:
            return
        self._outages.note_failure(self._deed, error)
        longest = FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures - 2, 10)
        # Never in step: all processes notice an outage together.
        self._interrupting.wait(min(longest, LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0))

    def succeed(self) -> None:
        """What was tried has succeeded, now or before by somebody else."""
        self._failures = 0
        self._outages.note_success(self._deed)


class Patience:
    """How long the commands of a process that stops wait for a server that says nothing.

    Not long; and when one reply did not come, not at all, until something succeeds again. Whoever
    runs for longer than the server hangs, such as a long actor, can still be acknowledged.

    Args:
        stopping: Set for as long as the process stops.
    """

    def __init__(self, outages: Outages, stopping: threading.Event) -> None:
        self._outages = outages
        self._stopping = stopping

    @classmethod
    def endless(cls) -> Patience:
        """That of a process that goes on."""
        return cls(Outages(), threading.Event())

    @property
    def is_short(self) -> bool:
        """Whether the process stops."""
        return self._stopping.is_set()

    def check(self) -> None:
        """Make sure that a command is worth trying.

        Raises:
            ConnectionFailed: The process stops, and the server does not answer.
        """
        if self._stopping.is_set() and self._outages.is_silent:
            raise ConnectionFailed("The server does not answer, and this process stops.")

    def note_silence(self) -> None:
        """A reply did not come in its time."""
        self._outages.is_silent = True
