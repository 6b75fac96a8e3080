"""One call of `Scripts.read` with short arguments, and its reply taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dramatiq_streams.keys import GROUP, RELEASED
from tests.scripts.shard import LANES, Shard


@dataclass(frozen=True, slots=True)
class Reply:
    """What one read brought."""

    time_ms: int
    next_eta: int
    forwarded: int
    is_paused: bool
    refused: list[int]
    last_ids: list[str]
    #: Lane, entry, deliveries, body.
    entries: list[tuple[int, str, int, str]]

    @property
    def ids(self) -> list[tuple[int, str]]:
        """Lane and id of each entry."""
        return [(lane, entry) for lane, entry, _, _ in self.entries]


def read(
    shard: Shard,
    *,
    budget: int = 10,
    shares: Sequence[int] = (0, 0, 0),
    acks: Sequence[Any] = (),
    limit: int = 100,
    watch: int = 0,
    consumer: str = "me",
    max_deliveries: int = 5,
) -> Reply:
    """Read the shard as *consumer*; a delayed message without its lane goes to `default`."""
    time_ms, next_eta, forwarded, is_paused, count, *rest = shard.scripts.read(
        wake=shard.keys.wake,
        paused=shard.keys.paused,
        cancelled=shard.keys.cancelled,
        counts=shard.keys.counts,
        delayed=shard.keys.delayed,
        delayed_messages=shard.keys.delayed_messages,
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        lanes=shard.keys.lanes,
        group=GROUP,
        consumer=consumer,
        released=RELEASED,
        budget=budget,
        shares=shares,
        acks=acks,
        lane_names=LANES,
        fallback=2,
        limit=limit,
        max_deliveries=max_deliveries,
        watch=watch,
    )
    refused, (last_count, *rest) = rest[:count], rest[count:]
    flat = iter(rest[last_count:])
    entries = [
        (lane, entry.decode(), deliveries, body.decode("utf-8", "backslashreplace"))
        for lane, entry, deliveries, body in zip(flat, flat, flat, flat, strict=True)
    ]
    last_ids = [last_id.decode() for last_id in rest[:last_count]]
    return Reply(time_ms, next_eta, forwarded, bool(is_paused), refused, last_ids, entries)
