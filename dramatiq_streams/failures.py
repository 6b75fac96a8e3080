"""Where redis-py's errors become dramatiq's and ours."""

from __future__ import annotations

import re

import redis
from dramatiq.errors import ConnectionClosed, ConnectionFailed

from .errors import CommandFailed, GroupMissing, ServerOutOfMemory

# A server in one of these states does nothing now and may serve again soon (Redis' error codes).
_UNABLE_NOW = re.compile(
    r"\b(LOADING|READONLY|CLUSTERDOWN|MASTERDOWN|NOREPLICAS|TRYAGAIN|MISCONF|BUSY"
    r"|max number of clients reached|unauthenticated (?:multi)?bulk length)\b"
)
# Of a code that redis-py has a class for, only the class is left.
_UNABLE_NOW_CLASSES = (
    redis.ReadOnlyError,
    redis.exceptions.ClusterError,
    redis.exceptions.TryAgainError,
)
_NOT_MASTER = re.compile(r"\b(READONLY|MASTERDOWN)\b")
_NOT_MASTER_CLASSES = (redis.ReadOnlyError, redis.exceptions.MasterDownError)
# What ends a blocked read when its server becomes a replica.
_NO_MASTER_NOW = re.compile(r"\bUNBLOCKED\b.*instance state changed")
_GROUP_MISSING = re.compile(r"\b(NOGROUP|UNBLOCKED)\b")
_OUT_OF_MEMORY = re.compile(r"\bOOM\b")


def as_broker_error(error: Exception) -> Exception:
    """What dramatiq, or our caller, is to see instead of redis-py's *error*.

    Scripts wrap the codes in text of their own, differently in each server version, so the text
    decides beside redis-py's class.
    """
    text = str(error) or type(error).__name__
    if isinstance(error, redis.exceptions.NoScriptError):
        return error
    if _NO_MASTER_NOW.search(text):
        return ConnectionFailed(text)
    # This first: its text names a key, and a queue may be called OOM.
    if _GROUP_MISSING.search(text):
        return GroupMissing(text)
    if isinstance(error, redis.OutOfMemoryError) or _OUT_OF_MEMORY.search(text):
        return ServerOutOfMemory(f"The server is out of memory and stored nothing: {text}")
    if isinstance(error, redis.AuthenticationError | redis.BusyLoadingError):
        return ConnectionFailed(text)
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | OSError):
        return ConnectionClosed(text)
    if isinstance(error, _UNABLE_NOW_CLASSES) or _UNABLE_NOW.search(text):
        return ConnectionFailed(text)
    return CommandFailed(text)


def means_no_master(error: Exception) -> bool:
    """Whether the server says that it is not, or no longer, a master: another one may be."""
    return isinstance(error, _NOT_MASTER_CLASSES) or _NOT_MASTER.search(str(error)) is not None
