from typing import Any

from dramatiq_streams.keys import GROUP
from tests.scripts.shard import NOTHING, WAKE_UP, Shard, changes


def ack(shard: Shard, *acks: Any) -> list[int]:
    return shard.scripts.ack(
        wake=shard.keys.wake,
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        lanes=shard.keys.lanes,
        group=GROUP,
        consumer="me",
        acks=acks,
    )


def test_acked_entries_of_all_lanes_are_gone_for_good(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.deliver("low", "1-0", "me", deliveries=3)
    shard.deliver("low", "2-0", "me")
    before = shard.lines()

    refused = ack(shard, (1, "1-0", 1), (3, "1-0", 3))

    assert refused == []
    assert shard.changes_since(before) == changes(
        gone={
            "high entry 1-0 m=high 1-0",
            "high pending 1-0 me 1",
            "low entry 1-0 m=low 1-0",
            "low pending 1-0 me 3",
        }
    )


def test_wake_up_call_is_acked_as_lane_zero_and_passed_on(shard: Shard) -> None:
    shard.deliver("wake", "1-0", "me")
    before = shard.lines()

    refused = ack(shard, (0, "1-0", 1))

    assert refused == []
    assert shard.changes_since(before) == changes(
        gone={"wake entry 1-0 m=wake 1-0", "wake pending 1-0 me 1"}, came={WAKE_UP}
    )


def test_refusals_are_told_by_their_position(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.deliver("high", "2-0", "other")
    shard.wait("high", "3-0")
    before = shard.lines()

    refused = ack(shard, (1, "2-0", 1), (1, "1-0", 1), (1, "3-0", 1), (1, "9-0", 1))

    assert refused == [1, 3, 4]
    assert shard.changes_since(before) == changes(
        gone={"high entry 1-0 m=high 1-0", "high pending 1-0 me 1"}
    )


def test_ack_of_an_earlier_delivery_cannot_settle_the_present_one(shard: Shard) -> None:
    shard.deliver("default", "1-0", "me", deliveries=2)
    before = shard.lines()

    refused = ack(shard, (2, "1-0", 1))

    assert refused == [1]
    assert shard.changes_since(before) == NOTHING


def test_second_ack_is_refused(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    ack(shard, (1, "1-0", 1))
    before = shard.lines()

    refused = ack(shard, (1, "1-0", 1))

    assert refused == [1]
    assert shard.changes_since(before) == NOTHING


def test_entry_acked_twice_in_one_call_is_acked_once(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    before = shard.lines()

    refused = ack(shard, (1, "1-0", 1), (1, "1-0", 1))

    assert refused == []
    assert shard.changes_since(before) == changes(
        gone={"high entry 1-0 m=high 1-0", "high pending 1-0 me 1"}
    )


def test_entry_deleted_from_its_stream_can_still_be_acked(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.delete("high", "1-0")
    before = shard.lines()

    refused = ack(shard, (1, "1-0", 1))

    assert refused == []
    assert shard.changes_since(before) == changes(gone={"high pending 1-0 me 1"})


def test_acks_for_a_queue_that_is_gone_are_refused_and_create_nothing(empty_shard: Shard) -> None:
    before = empty_shard.lines()

    refused = ack(empty_shard, (1, "1-0", 1), (0, "1-0", 1))

    assert refused == [1, 2]
    assert empty_shard.changes_since(before) == NOTHING


def test_stream_without_its_group_refuses_acks(empty_shard: Shard) -> None:
    empty_shard.wait("high", "1-0")
    before = empty_shard.lines()

    refused = ack(empty_shard, (1, "1-0", 1))

    assert refused == [1]
    assert empty_shard.changes_since(before) == NOTHING


def test_nothing_to_ack_changes_nothing(shard: Shard) -> None:
    before = shard.lines()

    refused = ack(shard)

    assert refused == []
    assert shard.changes_since(before) == NOTHING


def test_as_many_acks_as_one_call_ever_carries(shard: Shard) -> None:
    entries = [f"{number}-0" for number in range(1, 501)]
    for entry in entries:
        shard.deliver("high", entry, "me")

    refused = ack(shard, *((1, entry, 1) for entry in entries))

    assert refused == []
    assert not [line for line in shard.lines() if "entry" in line or "pending" in line]


def test_acks_go_on_when_memory_is_full(fillable_shard: Shard) -> None:
    fillable_shard.deliver("high", "1-0", "me")
    before = fillable_shard.lines()
    fillable_shard.fill_memory()

    refused = ack(fillable_shard, (1, "1-0", 1))

    assert refused == []
    assert fillable_shard.changes_since(before) == changes(
        gone={"high entry 1-0 m=high 1-0", "high pending 1-0 me 1"}
    )
