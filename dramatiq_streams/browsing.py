"""Pages of the messages that are on the server, in the order in which they will be worked on.

Read with plain commands: what moves meanwhile may be missed or seen twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .bodies import is_text
from .errors import GroupMissing, InvalidOption
from .executor import Executor
from .keys import GROUP, MESSAGE_FIELD, RELEASED
from .scope import Scope

#: How many messages are fetched at once. A message may be large.
FETCH = 200

#: Some 30,000 years after 1970.
FARTHEST_ETA = 10**15

_START = "0-0"
_ENTRY = re.compile(r"[0-9]{1,20}-[0-9]{1,20}\Z")
_DELAYED_CURSOR = re.compile(r"(-?[0-9]{1,16}):(.*)\Z", re.DOTALL)


class State(StrEnum):
    """Where a message is."""

    #: Waiting in its lane.
    READY = "ready"
    #: With a worker: running, or fetched ahead.
    PENDING = "pending"
    #: Not due yet.
    DELAYED = "delayed"


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message as it is stored."""

    queue: str
    state: State
    lane: str
    #: The entry in the lane, or the delivery id of a delayed message.
    place: str
    body: bytes = field(repr=False)
    #: When it is due, in server milliseconds; only for a delayed one.
    eta: int | None = None
    #: How often it was handed out before, and to whom now; only for one in a lane.
    deliveries: int = 0
    consumer: str | None = None
    #: Since its lease was last extended.
    idle_ms: int | None = None

    @property
    def cursor(self) -> str:
        """Where the next page begins."""
        return f"{self.lane if self.eta is None else self.eta}:{self.place}"


class Browsing:
    """The messages of every queue in a scope."""

    def __init__(self, executor: Executor, scope: Scope) -> None:
        self._executor = executor
        self._scope = scope

    def messages(
        self, queue_name: str, state: State, *, after: str | None = None
    ) -> Iterator[StoredMessage]:
        """The messages of a queue in one *state*, in order, fetched as they are asked for.

        Args:
            queue_name: The queue.
            state: Where the messages are.
            after: The `cursor` of the last message of the page before.

        Raises:
            InvalidOption: *after* is no cursor of this state.
        """
        if state is State.DELAYED:
            yield from self._delayed(queue_name, after)
            return
        first, start = self._position(after)
        walk = self._ready if state is State.READY else self._pending
        for index in range(first, len(self._scope.lanes.names)):
            yield from walk(queue_name, index, start)
            start = _START

    def marks(self, messages: Sequence[StoredMessage]) -> list[bool]:
        """For each of *messages* whether it is cancelled, and only waits to be dropped."""
        looks = [
            ("ZSCORE", self._scope.keys(m.queue).cancelled, f"{m.lane}:{m.place}") for m in messages
        ]
        replies = self._executor.execute_many(looks) if looks else []
        return [isinstance(reply, bytes) for reply in replies]

    def everything(self, queue_name: str) -> Iterator[StoredMessage]:
        """Every message of a queue, lane by lane and then the delayed ones."""
        for state in (State.PENDING, State.READY, State.DELAYED):
            yield from self.messages(queue_name, state)

    def _position(self, after: str | None) -> tuple[int, str]:
        if after is None:
            return 0, _START
        lane, _, entry = after.partition(":")
        if not is_entry_id(entry) or lane not in self._scope.lanes.names:
            raise InvalidOption.of("after", after, "LANE:ENTRY, as the page before has it")
        return self._scope.lanes.names.index(lane), entry

    def _ready(self, queue_name: str, index: int, start: str) -> Iterator[StoredMessage]:
        # What was given back is older than all that was never delivered.
        yield from self._delivered(queue_name, index, start, owner=RELEASED)
        lane = self._scope.keys(queue_name).lanes[index]
        start = max(start, self._last_delivered(lane), key=_order)
        while True:
            found = self._executor.execute("XRANGE", lane, f"({start}", "+", "COUNT", FETCH)
            for entry, fields in found:
                start = entry.decode()
                yield self._stored(queue_name, State.READY, index, start, body=_body(fields))
            if len(found) < FETCH:
                return

    def _pending(self, queue_name: str, index: int, start: str) -> Iterator[StoredMessage]:
        for message in self._delivered(queue_name, index, start, owner=None):
            if message.consumer != RELEASED:
                yield message

    def _delivered(
        self, queue_name: str, index: int, start: str, *, owner: str | None
    ) -> Iterator[StoredMessage]:
        lane = self._scope.keys(queue_name).lanes[index]
        state = State.PENDING if owner is None else State.READY
        whose = [] if owner is None else [owner]
        while True:
            try:
                pending = self._executor.execute(
                    "XPENDING", lane, GROUP, f"({start}", "+", FETCH, *whose
                )
            except GroupMissing:
                return
            ranges = [("XRANGE", lane, entry, entry) for entry, *_ in pending]
            bodies = self._executor.execute_many(ranges) if ranges else []
            for (entry, consumer, idle_ms, deliveries), found in zip(pending, bodies, strict=True):
                start = entry.decode()
                if isinstance(found, Exception):
                    raise found
                if not found:
                    continue  # It was acknowledged a moment ago.
                yield self._stored(
                    queue_name,
                    state,
                    index,
                    start,
                    body=_body(found[0][1]),
                    deliveries=deliveries,
                    consumer=consumer.decode(),
                    idle_ms=idle_ms,
                )
            if len(pending) < FETCH:
                return

    def _stored(
        self, queue_name: str, state: State, index: int, entry: str, **rest: Any
    ) -> StoredMessage:
        return StoredMessage(queue_name, state, self._scope.lanes.names[index], entry, **rest)

    def _last_delivered(self, lane: str) -> str:
        [groups] = self._executor.execute_many([("XINFO", "GROUPS", lane)])
        for flat in [] if isinstance(groups, Exception) else groups:
            told = dict(zip(flat[::2], flat[1::2], strict=True))
            if told[b"name"] == GROUP.encode():
                last: str = told[b"last-delivered-id"].decode()
                return last
        return _START

    def _delayed(self, queue_name: str, after: str | None) -> Iterator[StoredMessage]:
        keys = self._scope.keys(queue_name)
        least, last = _delayed_position(after)
        offset = 0
        while True:
            limit = ("LIMIT", offset, FETCH, "WITHSCORES")
            flat = self._executor.execute("ZRANGE", keys.delayed, least, "+inf", "BYSCORE", *limit)
            pairs = [(_eta(score), raw) for raw, score in zip(*[iter(flat)] * 2, strict=True)]
            wanted = [pair for pair in pairs if last is None or (pair[0], _text(pair[1])) > last]
            ids = [delivery for _, delivery in wanted]
            found = self._executor.execute("HMGET", keys.delayed_messages, *ids) if ids else []
            for (eta, delivery), packed in zip(wanted, found, strict=True):
                if packed is not None:
                    lane, body = _unpacked(packed)
                    place = _text(delivery)
                    yield StoredMessage(queue_name, State.DELAYED, lane, place, body, eta=eta)
            if len(pairs) < FETCH:
                return
            offset += FETCH


def _delayed_position(after: str | None) -> tuple[str, tuple[int, str] | None]:
    if after is None:
        return "-inf", None
    match = _DELAYED_CURSOR.match(after)
    if not match or not is_text(after):
        raise InvalidOption.of("after", after, "ETA:DELIVERY, as the page before has it")
    eta = int(match[1])
    return "-inf" if eta <= -FARTHEST_ETA else str(eta), (eta, match[2])


def is_entry_id(text: str) -> bool:
    """Whether *text* is the id of a stream's entry."""
    return bool(_ENTRY.match(text)) and max(_order(text)) < 2**64


def _eta(score: bytes) -> int:
    """Scores of strangers may be infinite."""
    return int(min(max(float(score), -FARTHEST_ETA), FARTHEST_ETA))


def _unpacked(packed: bytes) -> tuple[str, bytes]:
    """Of a delayed message its lane and its body, without a reservation: see `postpone.lua`.

    Without a colon it is nobody's message.
    """
    head, colon, body = packed.partition(b":")
    if not colon:
        return "", packed
    lane, _, size = head.partition(b"/")
    return _text(lane), body[int(size) if size.isdigit() else 0 :]


def _text(name: bytes) -> str:
    return name.decode(errors="backslashreplace")


def _order(entry: str) -> tuple[int, int]:
    milliseconds, _, number = entry.partition("-")
    return int(milliseconds), int(number)


def _body(fields: list[bytes]) -> bytes:
    return dict(zip(fields[::2], fields[1::2], strict=True)).get(MESSAGE_FIELD, b"")
