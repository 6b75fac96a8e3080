"""Messages that are not to be run any more: found by their id, dropped when they would be read.

An entry of a lane is only marked. It keeps its place until it is read, so that the server's count
of what was delivered stays right; a delayed message is removed at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from dramatiq.errors import DecodeError

from .bodies import parsed
from .browsing import Browsing, State, StoredMessage
from .calls import Runs
from .keys import GROUP, RELEASED
from .order_scripts import OrderScripts
from .scope import Scope


class Outcome(StrEnum):
    """What became of a cancellation."""

    #: It will not be run.
    CANCELLED = "cancelled"
    #: A worker holds it and may be running it; it is not delivered a second time.
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Cancellation:
    """One message that was found, and what became of it."""

    message: StoredMessage
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Search:
    """What a search for a message id has found."""

    found: list[StoredMessage]
    looked_at: int
    #: Whether it ended at the limit, with more to look at.
    is_cut_short: bool


class Cancellations:
    """Cancels messages of every queue in a scope."""

    def __init__(self, runs: Runs, scope: Scope, browsing: Browsing) -> None:
        self._scripts = OrderScripts(runs)
        self._scope = scope
        self._browsing = browsing

    def search(self, queue_names: Iterable[str], message_id: str, *, limit: int) -> Search:
        """Look through up to *limit* messages of *queue_names* for one with this id.

        A message that moved while it was looked for can be missed: then it is looked for again.
        """
        names = list(queue_names)
        first = self._look(names, message_id, limit)
        if first.found or first.is_cut_short:
            return first
        return self._look(names, message_id, limit)

    def cancel(self, message: StoredMessage) -> Cancellation | None:
        """Cancel *message*; None when it is not there any more: done, or moved on."""
        if message.state is State.DELAYED:
            return self._cancel_delayed(message)
        keys = self._scope.keys(message.queue)
        holder = self._scripts.cancel(
            lane=keys.lanes[self._scope.lanes.position(message.lane) - 1],
            cancelled=keys.cancelled,
            unique=keys.unique,
            unique_messages=keys.unique_messages,
            group=GROUP,
            released=RELEASED,
            lane_name=message.lane,
            entry=message.place,
        )
        if holder == b"gone":
            return None
        return Cancellation(message, Outcome.HELD if holder else Outcome.CANCELLED)

    def _cancel_delayed(self, message: StoredMessage) -> Cancellation | None:
        keys = self._scope.keys(message.queue)
        removed = self._scripts.cancel_delayed(
            delayed=keys.delayed,
            delayed_messages=keys.delayed_messages,
            counts=keys.counts,
            unique=keys.unique,
            unique_messages=keys.unique_messages,
            delivery=message.place,
        )
        return Cancellation(message, Outcome.CANCELLED) if removed else None

    def _look(self, queue_names: list[str], message_id: str, limit: int) -> Search:
        found: list[StoredMessage] = []
        looked_at = 0
        for message in self._everything(queue_names):
            if looked_at == limit:
                return Search(found, looked_at, is_cut_short=True)
            looked_at += 1
            if _has_id(message.body, message_id):
                found.append(message)
        return Search(found, looked_at, is_cut_short=False)

    def _everything(self, queue_names: list[str]) -> Iterator[StoredMessage]:
        for queue_name in queue_names:
            yield from self._browsing.everything(queue_name)


def _has_id(body: bytes, message_id: str) -> bool:
    # Decoding is slow, and JSON that does not contain the id need not be decoded.
    is_plain = json.dumps(message_id) == f'"{message_id}"'
    if is_plain and body.startswith(b"{") and message_id.encode() not in body:
        return False
    try:
        return parsed(body).message_id == message_id
    except DecodeError:
        return False
