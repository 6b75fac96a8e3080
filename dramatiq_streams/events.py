"""What operators count, told where it happens to whoever listens: the metrics do."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Event(StrEnum):
    """Something that happened, and what its label says."""

    #: A read that the server answered; the queue.
    FETCHED = "fetched"
    #: Another worker may have the message now; the queue.
    LEASE_LOST = "lease_lost"
    #: A message was acknowledged, rejected or retried after its lease was lost; the queue.
    SETTLED_TOO_LATE = "settled_too_late"
    #: Taken back from dead workers; the queue.
    RECOVERED = "recovered"
    #: Dead-lettered because its workers died too often; the queue.
    POISONED = "poisoned"
    #: The server could not be reached, could not serve or refused; the class of the error.
    FAILED = "failed"
    #: A connection after a failure; no label.
    RECONNECTED = "reconnected"
    #: An attempt to take a lock, and the seconds it took; its outcome.
    LOCK_ASKED = "lock_asked"
    #: A lock that is held for another lease; no label.
    LOCK_EXTENDED = "lock_extended"
    #: A lock that could not be extended, and may be another's; no label.
    LOCK_LOST = "lock_lost"
    #: A lock server refused a command, or did not answer; the server.
    LOCK_SERVER_FAILED = "lock_server_failed"
    #: A message was not run, because its key is done or running; the queue.
    DUPLICATE_SKIPPED = "duplicate_skipped"
    #: A message comes again later: its key is running, or cannot be claimed now; the queue.
    DEFERRED = "deferred"
    #: A message has the key of another one with other arguments; the queue.
    KEY_CONFLICT = "key_conflict"
    #: An actor ended after a newer token was given for its key; the queue.
    COMPLETED_TOO_LATE = "completed_too_late"


Listener = Callable[[Event, str, float], None]


class Events:
    """Passes events on, in the thread in which they happen."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Tell *listener* each event, its label and how often it happened, or how long it took.

        It must not raise.
        """
        if listener not in self._listeners:
            self._listeners.append(listener)

    def tell(self, event: Event, label: str = "", *, count: int = 1) -> None:
        """Tell that *event* happened *count* times."""
        if count:
            for listener in self._listeners:
                listener(event, label, count)

    def time(self, event: Event, label: str, *, seconds: float) -> None:
        """Tell that *event* happened, and took *seconds*."""
        for listener in self._listeners:
            listener(event, label, seconds)
