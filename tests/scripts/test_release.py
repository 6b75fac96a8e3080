from typing import Any

from dramatiq_streams.keys import GROUP, RELEASED
from tests.scripts.shard import NOTHING, WAKE_UP, Shard, changes


def release(shard: Shard, *entries: Any) -> int:
    return shard.scripts.release(
        wake=shard.keys.wake,
        lanes=shard.keys.lanes,
        group=GROUP,
        consumer="me",
        released=RELEASED,
        entries=entries,
    )


def test_released_deliveries_are_free_at_once_and_not_counted(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.deliver("low", "1-0", "me", deliveries=3)
    before = shard.lines()

    count = release(shard, (1, "1-0", 1, 0), (3, "1-0", 3, 2))

    assert count == 2
    assert shard.changes_since(before) == changes(
        gone={"high pending 1-0 me 1", "low pending 1-0 me 3"},
        came={"high pending 1-0 released 0", "low pending 1-0 released 2", WAKE_UP},
    )


def test_last_delivery_that_did_not_begin_stays_as_it_was_counted(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me", deliveries=4)

    count = release(shard, (1, "1-0", 4, 4))

    assert count == 1
    assert "high pending 1-0 released 4" in shard.lines()


def test_many_released_deliveries_make_one_wake_up_call(shard: Shard) -> None:
    for number in range(1, 6):
        shard.deliver("high", f"{number}-0", "me")

    count = release(shard, *((1, f"{number}-0", 1, 0) for number in range(1, 6)))

    assert count == 5
    assert shard.client.xlen(shard.keys.wake) == 1


def test_what_is_no_longer_held_stays_with_whom_it_is(shard: Shard) -> None:
    shard.deliver("high", "1-0", "other")
    shard.deliver("high", "2-0", "me", deliveries=2)
    shard.release("high", "3-0")
    before = shard.lines()

    count = release(shard, (1, "1-0", 1, 0), (1, "2-0", 1, 0), (1, "3-0", 1, 0), (1, "9-0", 1, 0))

    assert count == 0
    assert shard.changes_since(before) == NOTHING


def test_nothing_to_release_wakes_nobody(shard: Shard) -> None:
    before = shard.lines()

    count = release(shard)

    assert count == 0
    assert shard.changes_since(before) == NOTHING


def test_queue_that_was_flushed_has_nothing_to_release(empty_shard: Shard) -> None:
    count = release(empty_shard, (1, "1-0", 1, 0))

    assert count == 0
    assert empty_shard.lines() == frozenset()


def test_entry_deleted_from_its_stream_does_not_hinder_the_others(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.deliver("high", "2-0", "me")
    shard.delete("high", "1-0")
    before = shard.lines()

    release(shard, (1, "1-0", 1, 0), (1, "2-0", 1, 0))

    # From Redis 7 on XCLAIM forgets what was deleted; on Redis 6.2 whoever reads next does.
    kept = {"high pending 1-0 released 0"} if shard.is_redis62() else set()
    assert shard.changes_since(before) == changes(
        gone={"high pending 1-0 me 1", "high pending 2-0 me 1"},
        came={*kept, "high pending 2-0 released 0", WAKE_UP},
    )


def test_full_memory_refuses_only_the_wake_up_call(fillable_shard: Shard) -> None:
    fillable_shard.deliver("high", "1-0", "me")
    fillable_shard.fill_memory()

    count = release(fillable_shard, (1, "1-0", 1, 0))

    assert count == 1
    assert "high pending 1-0 released 0" in fillable_shard.lines()
