from collections.abc import Sequence
from typing import Any

from dramatiq_streams.keys import GROUP
from tests.scripts.shard import LANES, NOTHING, Shard, changes


def screen(shard: Shard, entries: Sequence[Any]) -> list[int]:
    return shard.scripts.screen(
        cancelled=shard.keys.cancelled,
        counts=shard.keys.counts,
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        lanes=shard.keys.lanes,
        group=GROUP,
        consumer="me",
        lane_names=LANES,
        entries=entries,
    )


def test_cancelled_entries_are_dropped_with_their_marks_and_counted(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.deliver("low", "1-0", "me")
    shard.client.zadd(shard.keys.cancelled, {"low:1-0": 5, "low:9-0": 6})
    before = shard.lines()

    dropped = screen(shard, [(1, "1-0", 1), (3, "1-0", 1)])

    assert dropped == [2]
    assert shard.changes_since(before) == changes(
        gone={"low entry 1-0 m=low 1-0", "low pending 1-0 me 1", "cancelled low:1-0 5"},
        came={"counts hash", "counts cancelled 1"},
    )


def test_entry_that_somebody_else_has_by_now_is_left_alone(shard: Shard) -> None:
    shard.deliver("low", "1-0", "other")
    shard.client.zadd(shard.keys.cancelled, {"low:1-0": 5})
    before = shard.lines()

    dropped = screen(shard, [(3, "1-0", 1)])

    assert dropped == []
    assert shard.changes_since(before) == NOTHING


def test_same_entry_of_another_lane_is_another_one(shard: Shard) -> None:
    shard.deliver("low", "1-0", "me")
    shard.client.zadd(shard.keys.cancelled, {"high:1-0": 5})

    dropped = screen(shard, [(3, "1-0", 1)])

    assert dropped == []
