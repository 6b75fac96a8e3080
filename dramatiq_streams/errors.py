"""Every error of this package, in one tree.

    DramatiqError
    └── StreamsError
        ├── InvalidOption            (also ValueError)
        │   ├── UnknownLane
        │   └── InvalidIdempotency   (also MiddlewareError)
        ├── UnsupportedServer
        ├── CommandFailed
        ├── GroupMissing
        ├── MessageTooLarge          (also ValueError)
        ├── PartlyEnqueued           (also BrokerConnectionError)
        ├── NotEnqueued              (also ConnectionFailed)
        │   └── SpoolFull
        ├── EnqueueUnconfirmed       (also ConnectionClosed)
        ├── NotReplicated            (also BrokerConnectionError)
        ├── SpoolFailed
        ├── LocksUnavailable
        ├── ServerOutOfMemory        (also BrokerConnectionError)
        ├── NotClaimed               (also MiddlewareError)
        ├── DuplicateMessage         (also SkipMessage)
        ├── IdempotencyConflict      (also SkipMessage)
        ├── DeliveredTooOften        (also SkipMessage)
        └── NoFencingToken

    Interrupt
    └── LeaseLost

An `Interrupt` is dramatiq's, as `Shutdown` is: no `except Exception` catches it.

Trouble with the connection is reported with dramatiq's own `ConnectionFailed` (nothing was
sent) and `ConnectionClosed` (whether the server acted is not known). Whatever tells of messages
has them in `enqueued`, `unconfirmed` and `unsent`, lists that may be empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dramatiq.errors import (
    BrokerConnectionError,
    ConnectionClosed,
    ConnectionFailed,
    DramatiqError,
)
from dramatiq.message import Message
from dramatiq.middleware import MiddlewareError, SkipMessage
from dramatiq.threading import Interrupt

#: How much of a message's arguments an error shows, and how much of an option's value.
_MOST_SHOWN = 200
_MOST_OF_A_VALUE = 500


class StreamsError(DramatiqError):
    """Something went wrong in dramatiq_streams."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())  # type: ignore[no-untyped-call]


class InvalidOption(StreamsError, ValueError):
    """An option has a value that it cannot have."""

    @classmethod
    def of(cls, name: str, value: object, allowed: str) -> InvalidOption:
        """The error for option *name*, naming its value and what would be *allowed*."""
        return cls(f"{name}={_shown(value)} is not possible: {name} must be {allowed}.")


class UnknownLane(InvalidOption):
    """A message or an actor names a lane that the broker does not have."""


class UnsupportedServer(StreamsError):
    """The server is too old: dramatiq_streams needs Redis 6.2 or newer, or Valkey."""


class CommandFailed(StreamsError):
    """The server refused a command, and asking again would not help."""


class GroupMissing(StreamsError):
    """The consumer group or its stream is gone; it has to be created again."""


class MessageTooLarge(StreamsError, ValueError):
    """A message is larger than `max_message_bytes` when it is encoded; it was not sent."""


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


class NotEnqueued(StreamsError, ConnectionFailed):
    """The server could not be reached, or could not serve, and a message was not enqueued.

    Attributes:
        enqueued: Empty.
        unconfirmed: Empty.
        unsent: The messages, as middleware saw them; they can be enqueued again.
    """

    def __init__(self, cause: object, *, unsent: Sequence[Message[Any]]) -> None:
        super().__init__(f"{_named(unsent)} not enqueued: {cause}")
        self.enqueued: list[Message[Any]] = []
        self.unconfirmed: list[Message[Any]] = []
        self.unsent = list(unsent)


class SpoolFull(NotEnqueued):
    """The server cannot be reached, and the spool has no room; a message was not enqueued.

    Attributes: as `NotEnqueued`.
    """


class SpoolFailed(StreamsError):
    """The file of the spool cannot be used."""


class LocksUnavailable(StreamsError):
    """Too few lock servers answer: whether a lock is free, or still held, is not known."""


class EnqueueUnconfirmed(StreamsError, ConnectionClosed):
    """The connection broke before the server's reply: a message may or may not be enqueued.

    Attributes:
        enqueued: Empty.
        unconfirmed: The messages; enqueueing them again can enqueue them twice.
        unsent: Empty.
    """

    def __init__(self, cause: object, *, unconfirmed: Sequence[Message[Any]]) -> None:
        super().__init__(f"{_named(unconfirmed)} perhaps not enqueued: {cause}")
        self.enqueued: list[Message[Any]] = []
        self.unconfirmed = list(unconfirmed)
        self.unsent: list[Message[Any]] = []


class NotReplicated(StreamsError, BrokerConnectionError):
    """The server has stored messages, but too few replicas have confirmed them in time.

    They will normally run, and are lost only if the server fails before a replica has them.

    Attributes:
        enqueued: What the server has stored: do not enqueue it again.
        unconfirmed: Empty.
        unsent: What was not sent any more; of `enqueue_many` only.
        confirmed_by: How many replicas have confirmed the last of them.
    """

    def __init__(
        self,
        confirmed_by: int,
        *,
        wanted: int,
        enqueued: Sequence[Message[Any]],
        unsent: Sequence[Message[Any]] = (),
    ) -> None:
        super().__init__(
            f"{_named(enqueued)} enqueued, but confirmed by {confirmed_by} replicas instead of"
            f" {wanted}: a failover may lose what is not replicated. Do not enqueue it again."
        )
        self.enqueued = list(enqueued)
        self.unconfirmed: list[Message[Any]] = []
        self.unsent = list(unsent)
        self.confirmed_by = confirmed_by


class InvalidIdempotency(InvalidOption, MiddlewareError):
    """The middleware Idempotency, or an actor's or a message's option for it, is not possible."""


class NotClaimed(StreamsError, MiddlewareError):
    """A message was not run, because its key could not be claimed; it has failed."""


class DuplicateMessage(StreamsError, SkipMessage):
    """A message with the same idempotency key was done before; this one was not run."""


class IdempotencyConflict(StreamsError, SkipMessage):
    """A message has the idempotency key of another one that has other arguments."""


class DeliveredTooOften(StreamsError, SkipMessage):
    """A message was delivered `max_deliveries` times, and its worker died each time."""


class NoFencingToken(StreamsError):
    """There is no fencing token here: no actor with an idempotency key runs in this context."""


class LeaseLost(Interrupt):
    """This actor runs though another worker may run its key by now."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # a number of more digits than Python writes; or it is the user's code
        text = f"({type(value).__name__}, which has no text)"
    return text if len(text) <= _MOST_OF_A_VALUE else f"{text[:_MOST_OF_A_VALUE]}..."


def _named(messages: Sequence[Message[Any]]) -> str:
    """A subject and its verb: one message by its id and text, many by their number."""
    if len(messages) != 1:
        return f"{len(messages)} messages were"
    (message,) = messages
    text = str(message)
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    return f"Message {message.message_id} of queue {message.queue_name!r}, {shown}, was"
