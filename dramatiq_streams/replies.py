"""What the server replies to reads, taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .keys import MESSAGE_FIELD, QueueKeys
from .messages import Entry


@dataclass(frozen=True, slots=True)
class Reading:
    """What one read brought."""

    entries: list[Entry]
    refused: list[Entry]
    #: How many delayed messages were due and are in their lanes now.
    forwarded: int
    #: Milliseconds until the next delayed message is due; None when there is none.
    next_due_ms: int | None
    #: Nothing is read from a queue that is paused.
    is_paused: bool
    #: Where to `wait` from.
    last_ids: list[str]


@dataclass(frozen=True, slots=True)
class Blocked:
    """What a blocking read brought; wake-up calls are entries of lane 0, only to be acked."""

    entries: list[Entry]
    wakes: list[Entry]


def reading_in(reply: list[Any], acks: Sequence[Entry]) -> Reading:
    """What a read that carried *acks* has brought."""
    server_ms, eta, forwarded, is_paused, refused_count = reply[:5]
    refused, rest = reply[5 : 5 + refused_count], reply[5 + refused_count :]
    last_ids, flat = rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
    return Reading(
        entries=[
            _entry(lane, entry_id, deliveries, body, server_ms)
            for lane, entry_id, deliveries, body in zip(*[iter(flat)] * 4, strict=True)
        ],
        refused=[acks[position - 1] for position in refused],
        forwarded=forwarded,
        next_due_ms=None if eta < 0 else max(eta - server_ms, 0),
        is_paused=bool(is_paused),
        last_ids=[last_id.decode() for last_id in last_ids],
    )


def blocked_in(reply: list[Any], keys: QueueKeys, server_ms: float | None) -> Blocked:
    """What a blocking read has brought, whose *reply* came at *server_ms* if that is known."""
    entries, wakes = [], []
    for stream, found in reply:
        name = stream.decode()
        for entry_id, fields in found:
            if name == keys.wake:
                wakes.append(Entry(0, entry_id.decode(), 1, b"", is_in_doubt=True))
            else:
                lane = keys.lanes.index(name) + 1
                # Deleted between the delivery and the reply: fields is nil.
                body = dict(zip(*[iter(fields or ())] * 2, strict=True)).get(MESSAGE_FIELD, b"")
                entries.append(_entry(lane, entry_id, 1, body, server_ms))
    return Blocked(sorted(entries, key=lambda entry: entry.lane), wakes)


def _entry(
    lane: int, entry_id: bytes, deliveries: int, body: bytes, server_ms: float | None
) -> Entry:
    waited_ms = None
    if server_ms is not None:
        # An entry's id begins with the server's time when it was added.
        waited_ms = max(server_ms - int(entry_id.partition(b"-")[0]), 0.0)
    return Entry(
        lane,
        entry_id.decode(),
        abs(deliveries),
        body,
        is_last=deliveries < 0,
        waited_ms=waited_ms,
    )
