"""Every error of this package, in one tree.

    DramatiqError
    └── StreamsError
        ├── InvalidOption            (also ValueError)
        │   └── UnknownLane
        ├── UnsupportedServer
        ├── CommandFailed
        ├── GroupMissing
        ├── PartlyEnqueued           (also BrokerConnectionError)
        └── ServerOutOfMemory        (also BrokerConnectionError)

Trouble with the connection is reported with dramatiq's own `ConnectionFailed` (nothing was
sent) and `ConnectionClosed` (whether the server acted is not known).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dramatiq.errors import BrokerConnectionError, DramatiqError
from dramatiq.message import Message


class StreamsError(DramatiqError):
    """Something went wrong in dramatiq_streams."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())  # type: ignore[no-untyped-call]


class InvalidOption(StreamsError, ValueError):
    """An option has a value that it cannot have."""

    @classmethod
    def of(cls, name: str, value: object, allowed: str) -> InvalidOption:
        """The error for option *name*, naming its value and what would be *allowed*."""
        return cls(f"{name}={value!r} is not possible: {name} must be {allowed}.")


class UnknownLane(InvalidOption):
    """A message or an actor names a lane that the broker does not have."""


class UnsupportedServer(StreamsError):
    """The server is too old: dramatiq_streams needs Redis 6.2 or newer, or Valkey."""


class CommandFailed(StreamsError):
    """The server refused a command, and asking again would not help."""


class GroupMissing(StreamsError):
    """The consumer group or its stream is gone; it has to be created again."""


class ServerOutOfMemory(StreamsError, BrokerConnectionError):
    """The server has reached `maxmemory` and refuses to store more; nothing was stored."""


class PartlyEnqueued(StreamsError, BrokerConnectionError):
    """Not all messages of `enqueue_many` were enqueued.

    Attributes:
        enqueued: Messages that the server has confirmed.
        unconfirmed: Messages that were sent but not confirmed: they may or may not be enqueued.
        unsent: Messages that certainly were not enqueued.
    """

    def __init__(
        self,
        cause: BaseException,
        *,
        enqueued: Sequence[Message[Any]],
        unconfirmed: Sequence[Message[Any]],
        unsent: Sequence[Message[Any]],
    ) -> None:
        super().__init__(
            f"{len(enqueued)} messages were enqueued, {len(unconfirmed)} perhaps and"
            f" {len(unsent)} not: {cause}"
        )
        self.enqueued = list(enqueued)
        self.unconfirmed = list(unconfirmed)
        self.unsent = list(unsent)
