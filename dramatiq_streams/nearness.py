"""Waiting for a reply that comes at once: awake, since to sleep and be woken takes longer.

A server on the same machine or next to it answers in less time than a thread needs to fall asleep
and be woken; waiting awake even takes less CPU time. Whoever is further away is slept for.
"""

from __future__ import annotations

import time
from typing import Protocol

#: For so long a thread stays awake. Being woken costs about as much.
AWAKE_SECONDS = 100e-6

#: The most commands in a row whose replies are slept for, before one is waited for awake again.
MOST_SLEEPS = 256


class Readable(Protocol):
    """A connection, of redis-py's."""

    def can_read(self) -> bool:
        """Whether anything has come on it."""


class Nearness:
    """Whether the server has answered at once of late.

    Threads share it without a lock: what they overwrite of each other's costs a reply its haste.
    """

    def __init__(self) -> None:
        self._sleeps = 0
        self._sleeps_left = 0

    def await_reply(self, connection: Readable) -> None:
        """Stay awake until a reply has begun to come, if it is likely to come at once.

        Returns:
            Also when none has come: it is to be waited for as usual.
        """
        if self._sleeps_left > 0:
            self._sleeps_left -= 1
            return
        until = time.perf_counter() + AWAKE_SECONDS
        while not connection.can_read():
            if time.perf_counter() >= until:
                self._sleeps = min(max(self._sleeps * 2, 2), MOST_SLEEPS)
                self._sleeps_left = self._sleeps
                return
        self._sleeps = 0
