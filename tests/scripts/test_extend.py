from typing import Any

from dramatiq_streams.keys import GROUP
from tests.scripts.shard import NOTHING, Shard, changes


def extend(shard: Shard, *held: Any) -> list[int]:
    return shard.scripts.extend(
        lanes=shard.keys.lanes,
        group=GROUP,
        consumer="me",
        held=held,
    )


def test_held_entries_have_a_full_lease_again_and_count_no_delivery(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me", deliveries=2, idle_ms=50_000)
    shard.deliver("low", "1-0", "me", idle_ms=50_000)
    before = shard.lines()

    lost = extend(shard, (1, "1-0", 2), (3, "1-0", 1))

    assert lost == []
    assert shard.changes_since(before) == NOTHING
    assert shard.idle_ms("high", "1-0") < 10_000
    assert shard.idle_ms("low", "1-0") < 10_000


def test_what_is_lost_is_told_by_its_position_and_left_alone(shard: Shard) -> None:
    shard.deliver("high", "1-0", "other", idle_ms=50_000)
    shard.deliver("high", "2-0", "me")
    shard.release("high", "3-0")
    before = shard.lines()

    lost = extend(shard, (1, "1-0", 1), (1, "2-0", 1), (1, "3-0", 1), (1, "9-0", 1))

    assert lost == [1, 3, 4]
    assert shard.changes_since(before) == NOTHING
    assert shard.idle_ms("high", "1-0") >= 50_000


def test_same_entry_delivered_again_to_the_same_consumer_is_lost_to_its_first_delivery(
    shard: Shard,
) -> None:
    shard.deliver("high", "1-0", "me", deliveries=2, idle_ms=50_000)

    lost = extend(shard, (1, "1-0", 1))

    assert lost == [1]
    assert shard.idle_ms("high", "1-0") >= 50_000


def test_nothing_held_is_nothing_lost(shard: Shard) -> None:
    before = shard.lines()

    lost = extend(shard)

    assert lost == []
    assert shard.changes_since(before) == NOTHING


def test_everything_is_lost_with_the_queue(empty_shard: Shard) -> None:
    before = empty_shard.lines()

    lost = extend(empty_shard, (1, "1-0", 1), (2, "1-0", 1))

    assert lost == [1, 2]
    assert empty_shard.changes_since(before) == NOTHING


def test_entry_deleted_from_its_stream_is_lost_at_the_latest_one_beat_later(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.delete("high", "1-0")
    before = shard.lines()

    first = extend(shard, (1, "1-0", 1))
    second = extend(shard, (1, "1-0", 1))

    # From Redis 7 on XCLAIM forgets what was deleted; Redis 6.2 keeps it for the coming ack.
    dropped = set() if shard.is_redis62() else {"high pending 1-0 me 1"}
    assert first == []
    assert second == ([] if shard.is_redis62() else [1])
    assert shard.changes_since(before) == changes(gone=dropped)


def test_as_many_entries_as_one_call_ever_extends(shard: Shard) -> None:
    held = [(1, f"{number}-0", 1) for number in range(1, 501)]
    for _, entry, _ in held:
        shard.deliver("high", entry, "me", idle_ms=50_000)

    lost = extend(shard, *held)

    assert lost == []
    assert shard.idle_ms("high", "1-0") < 10_000
    assert shard.idle_ms("high", "500-0") < 10_000


def test_leases_are_extended_when_memory_is_full(fillable_shard: Shard) -> None:
    fillable_shard.deliver("high", "1-0", "me", idle_ms=50_000)
    before = fillable_shard.lines()
    fillable_shard.fill_memory()

    lost = extend(fillable_shard, (1, "1-0", 1))

    assert lost == []
    assert fillable_shard.idle_ms("high", "1-0") < 10_000
    assert fillable_shard.changes_since(before) == NOTHING


def test_losses_are_told_when_memory_is_full(fillable_shard: Shard) -> None:
    fillable_shard.deliver("high", "1-0", "other")
    before = fillable_shard.lines()
    fillable_shard.fill_memory()

    lost = extend(fillable_shard, (1, "1-0", 1))

    assert lost == [1]
    assert fillable_shard.changes_since(before) == NOTHING
