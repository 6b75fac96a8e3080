"""A Dramatiq broker on Redis Streams consumer groups."""

from .broker import StreamsBroker
from .claims import Claims
from .encoders import SigningEncoder
from .errors import (
    CommandFailed,
    DeliveredTooOften,
    DuplicateMessage,
    EnqueueUnconfirmed,
    GroupMissing,
    IdempotencyConflict,
    InvalidIdempotency,
    InvalidOption,
    LeaseLost,
    LocksUnavailable,
    MessageTooLarge,
    NoFencingToken,
    NotClaimed,
    NotEnqueued,
    NotReplicated,
    PartlyEnqueued,
    ServerOutOfMemory,
    SpoolFailed,
    SpoolFull,
    StreamsError,
    UnknownLane,
    UnsupportedServer,
)
from .versioned import VersionedTable

__all__ = [
    "Claims",
    "CommandFailed",
    "DeliveredTooOften",
    "DuplicateMessage",
    "EnqueueUnconfirmed",
    "GroupMissing",
    "IdempotencyConflict",
    "InvalidIdempotency",
    "InvalidOption",
    "LeaseLost",
    "LocksUnavailable",
    "MessageTooLarge",
    "NoFencingToken",
    "NotClaimed",
    "NotEnqueued",
    "NotReplicated",
    "PartlyEnqueued",
    "ServerOutOfMemory",
    "SigningEncoder",
    "SpoolFailed",
    "SpoolFull",
    "StreamsBroker",
    "StreamsError",
    "UnknownLane",
    "UnsupportedServer",
    "VersionedTable",
]

__version__ = "0.1.0"
