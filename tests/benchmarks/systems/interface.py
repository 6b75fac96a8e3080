"""What the benchmarks ask of every system under test, in its producers and in its workers."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

#: Sixty characters: what a crawler's messages carry.
URL = "https://www.example.com/catalogue/books/page-0000042?sort=asc"[:60]

ServerKind = Literal["redis", "rabbitmq", "none"]


@dataclass(frozen=True, slots=True)
class Send:
    """One message that a producer sends.

    Args:
        number: Identifies it in the ledger; negative for warming up.
        wait: Seconds to wait before it is sent.
        delay_ms: Its delay on the way; None for none at all.
        lane: Only for systems with lanes.
        task_ms: For how long its actor sleeps.
    """

    number: int
    wait: float = 0.0
    delay_ms: int | None = None
    lane: str | None = None
    task_ms: int = 0


class System(ABC):
    """One system under test, opened in a producer's or a worker's process.

    Args:
        url: Of its server.
        queue: Different for each trial where the server is not.
    """

    #: Its name on the command line and in the JSON.
    name: ClassVar[str]
    #: Its name in tables.
    title: ClassVar[str]
    #: Which server it needs.
    server: ClassVar[ServerKind] = "redis"

    #: What the system's own command line loads.
    broker: Any

    @abstractmethod
    def __init__(self, url: str, queue: str) -> None: ...

    @abstractmethod
    def send(self, one: Send) -> None:
        """Send one message and return when the system's own `send` does."""

    def send_each(self, sends: Iterable[Send], sent_at: array[float]) -> None:
        """Send one by one, and note the time just before each."""
        for one in sends:
            if one.wait:
                time.sleep(one.wait)
            sent_at.append(time.monotonic())
            self.send(one)

    def send_many(self, sends: Sequence[Send]) -> None:
        """Send in the fastest way that the system has; one by one if it has no other."""
        self.send_each(sends, array("d"))

    def close(self) -> None:
        """Close the producer."""
        self.broker.close()

    @classmethod
    @abstractmethod
    def worker_command(cls, app: str, *, processes: int, threads: int) -> list[str]:
        """The command line with which a user starts workers for the module *app*."""


def python_module(*arguments: str) -> list[str]:
    """A command line that runs a module with this Python."""
    return [sys.executable, "-m", *arguments]
