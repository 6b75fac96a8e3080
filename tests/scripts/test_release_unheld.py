from typing import Any

import pytest

from dramatiq_streams.errors import GroupMissing
from dramatiq_streams.keys import GROUP, RELEASED
from tests.scripts.shard import NOTHING, WAKE_UP, Shard, changes


def release_unheld(shard: Shard, *held: Any, limit: int = 1000) -> int:
    return shard.scripts.release_unheld(
        wake=shard.keys.wake,
        lanes=shard.keys.lanes,
        group=GROUP,
        consumer="me",
        released=RELEASED,
        held=held,
        limit=limit,
    )


def test_deliveries_that_the_consumer_never_heard_of_are_free_and_not_counted(
    shard: Shard,
) -> None:
    shard.deliver("high", "1-0", "me")
    shard.deliver("high", "2-0", "me", deliveries=3)
    shard.deliver("low", "1-0", "me")
    before = shard.lines()

    count = release_unheld(shard, (1, "1-0"))

    assert count == 2
    assert shard.changes_since(before) == changes(
        gone={"high pending 2-0 me 3", "low pending 1-0 me 1"},
        came={"high pending 2-0 released 2", "low pending 1-0 released 0", WAKE_UP},
    )


def test_same_id_in_another_lane_is_another_entry(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.deliver("low", "1-0", "me")
    before = shard.lines()

    count = release_unheld(shard, (3, "1-0"))

    assert count == 1
    assert shard.changes_since(before) == changes(
        gone={"high pending 1-0 me 1"}, came={"high pending 1-0 released 0", WAKE_UP}
    )


def test_entries_of_others_are_left_alone(shard: Shard) -> None:
    shard.deliver("high", "1-0", "other")
    shard.release("high", "2-0", deliveries=2)
    shard.wait("high", "3-0")
    before = shard.lines()

    count = release_unheld(shard)

    assert count == 0
    assert shard.changes_since(before) == NOTHING


def test_limit_bounds_how_many_of_a_lane_are_looked_through(shard: Shard) -> None:
    for number in range(1, 5):
        shard.deliver("high", f"{number}-0", "me")
    shard.deliver("low", "1-0", "me")
    before = shard.lines()

    count = release_unheld(shard, (1, "1-0"), limit=3)

    assert count == 3
    assert shard.changes_since(before) == changes(
        gone={"high pending 2-0 me 1", "high pending 3-0 me 1", "low pending 1-0 me 1"},
        came={
            "high pending 2-0 released 0",
            "high pending 3-0 released 0",
            "low pending 1-0 released 0",
            WAKE_UP,
        },
    )


def test_missing_group_is_reported(shard: Shard) -> None:
    shard.client.delete(shard.lane("low"))

    with pytest.raises(GroupMissing):
        release_unheld(shard)


def test_full_memory_refuses_only_the_wake_up_call(fillable_shard: Shard) -> None:
    fillable_shard.deliver("high", "1-0", "me")
    fillable_shard.fill_memory()

    count = release_unheld(fillable_shard)

    assert count == 1
    assert "high pending 1-0 released 0" in fillable_shard.lines()
