"""A Dramatiq broker on Redis Streams consumer groups."""

from .broker import StreamsBroker
from .errors import (
    CommandFailed,
    GroupMissing,
    InvalidOption,
    PartlyEnqueued,
    ServerOutOfMemory,
    StreamsError,
    UnknownLane,
    UnsupportedServer,
)

__all__ = [
    "CommandFailed",
    "GroupMissing",
    "InvalidOption",
    "PartlyEnqueued",
    "ServerOutOfMemory",
    "StreamsBroker",
    "StreamsError",
    "UnknownLane",
    "UnsupportedServer",
]

__version__ = "0.1.0"
