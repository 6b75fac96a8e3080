from typing import Any

import pytest

from dramatiq_streams.errors import GroupMissing
from tests.scripts.reading import read
from tests.scripts.shard import NOTHING, WAKE_UP, Shard, changes


def test_new_entries_are_delivered_highest_lane_first(shard: Shard) -> None:
    shard.wait("low", "1-0")
    shard.wait("high", "1-0", "2-0")
    before = shard.lines()

    reply = read(shard)

    assert reply.refused == []
    assert reply.entries == [
        (1, "1-0", 1, "high 1-0"),
        (1, "2-0", 1, "high 2-0"),
        (3, "1-0", 1, "low 1-0"),
    ]
    assert shard.changes_since(before) == changes(
        gone={"high last 0-0", "low last 0-0"},
        came={
            "high last 2-0",
            "high pending 1-0 me 1",
            "high pending 2-0 me 1",
            "low last 1-0",
            "low pending 1-0 me 1",
        },
    )


def test_empty_queue_brings_nothing_and_the_time(shard: Shard) -> None:
    before, started_ms = shard.lines(), shard.now_ms()

    reply = read(shard)

    assert started_ms <= reply.time_ms <= shard.now_ms()
    assert (reply.next_eta, reply.refused, reply.entries) == (-1, [], [])
    assert shard.changes_since(before) == NOTHING


def test_lanes_share_one_budget(shard: Shard) -> None:
    shard.wait("high", "1-0", "2-0")
    shard.wait("default", "1-0", "2-0")

    reply = read(shard, budget=3)

    assert reply.ids == [(1, "1-0"), (1, "2-0"), (2, "1-0")]


def test_budget_of_zero_settles_and_forwards_and_reads_nothing(shard: Shard) -> None:
    shard.wait("high", "1-0")
    shard.release("low", "1-0")
    shard.deliver("default", "1-0", "me")
    shard.delay("d1", "low:due", 1)
    before = shard.lines()

    reply = read(shard, budget=0, shares=(0, 5, 5), acks=[(2, "1-0", 1)])

    assert reply.entries == []
    assert shard.changes_since(before) == changes(
        gone={
            "default entry 1-0 m=default 1-0",
            "default pending 1-0 me 1",
            "delayed zset",
            "delayed d1 1",
            "delayed:messages hash",
            "delayed:messages d1 low:due",
        },
        came={"low entry new m=due"},
    )


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((0, 0, 0), {"high": 4}),
        ((0, 1, 0), {"high": 3, "default": 1}),
        ((0, 2, 1), {"high": 1, "default": 2, "low": 1}),
        ((0, 9, 9), {"default": 4}),
        ((9, 9, 9), {"high": 4}),
    ],
)
def test_shares_are_read_ahead_of_higher_lanes(
    shard: Shard, shares: tuple[int, ...], expected: dict[str, int]
) -> None:
    for lane in ("high", "default", "low"):
        shard.wait(lane, *(f"{number}-0" for number in range(1, 6)))

    reply = read(shard, budget=4, shares=shares)

    assert [body for _, _, _, body in reply.entries] == [
        f"{lane} {number}-0" for lane, count in expected.items() for number in range(1, count + 1)
    ]


def test_share_that_a_lane_cannot_use_goes_to_the_highest(shard: Shard) -> None:
    shard.wait("high", "1-0", "2-0", "3-0")
    shard.wait("low", "1-0")

    reply = read(shard, budget=3, shares=(0, 2, 2))

    assert reply.ids == [(1, "1-0"), (1, "2-0"), (3, "1-0")]


def test_released_entries_come_first_in_their_old_place_and_are_counted(shard: Shard) -> None:
    shard.release("high", "1-0", deliveries=0)
    shard.deliver("high", "2-0", "other")
    shard.release("high", "3-0", deliveries=3)
    shard.wait("high", "4-0")
    before = shard.lines()

    reply = read(shard)

    assert reply.entries == [
        (1, "1-0", 1, "high 1-0"),
        (1, "3-0", 4, "high 3-0"),
        (1, "4-0", 1, "high 4-0"),
    ]
    assert shard.changes_since(before) == changes(
        gone={"high last 3-0", "high pending 1-0 released 0", "high pending 3-0 released 3"},
        came={
            "high last 4-0",
            "high pending 1-0 me 1",
            "high pending 3-0 me 4",
            "high pending 4-0 me 1",
        },
    )


def test_reader_wakes_the_next_one_when_released_entries_may_remain(shard: Shard) -> None:
    shard.release("high", "1-0")
    shard.release("high", "2-0")
    before = shard.lines()

    reply = read(shard, budget=1)

    assert reply.ids == [(1, "1-0")]
    assert shard.changes_since(before) == changes(
        gone={"high pending 1-0 released 1"}, came={"high pending 1-0 me 2", WAKE_UP}
    )


def test_reader_with_budget_left_wakes_nobody(shard: Shard) -> None:
    shard.release("high", "1-0")
    before = shard.lines()

    read(shard, budget=2)

    assert shard.changes_since(before) == changes(
        gone={"high pending 1-0 released 1"}, came={"high pending 1-0 me 2"}
    )


@pytest.mark.parametrize(("budget", "is_passed_on"), [(0, True), (1, True), (2, False)])
def test_wake_up_call_is_passed_on_by_who_may_not_have_taken_all(
    shard: Shard, budget: int, is_passed_on: bool
) -> None:
    shard.deliver("wake", "1-0", "me")
    shard.wait("high", "1-0")

    read(shard, budget=budget, acks=[(0, "1-0", 1)])

    assert shard.client.xlen(shard.keys.wake) == is_passed_on


def test_new_entries_wake_nobody_however_many_remain(shard: Shard) -> None:
    shard.wait("high", "1-0", "2-0")

    read(shard, budget=1)

    assert shard.client.xlen(shard.keys.wake) == 0


def test_released_entries_fill_a_share_before_new_ones(shard: Shard) -> None:
    shard.release("low", "1-0")
    shard.wait("low", "2-0")
    shard.wait("high", "1-0", "2-0")

    reply = read(shard, budget=2, shares=(0, 0, 1))

    assert reply.ids == [(1, "1-0"), (3, "1-0")]


def test_order_within_a_lane_survives_a_share_and_the_rest(shard: Shard) -> None:
    shard.release("low", "1-0")
    shard.release("low", "2-0")
    shard.wait("low", "3-0", "4-0")

    reply = read(shard, budget=4, shares=(0, 0, 1))

    assert [entry for _, entry in reply.ids] == ["1-0", "2-0", "3-0", "4-0"]


def test_released_entry_deleted_from_its_stream_is_cleared(shard: Shard) -> None:
    shard.release("high", "1-0")
    shard.release("high", "2-0")
    shard.delete("high", "1-0")
    before = shard.lines()

    reply = read(shard)

    assert reply.ids == [(1, "2-0")]
    assert shard.changes_since(before) == changes(
        gone={"high pending 1-0 released 1", "high pending 2-0 released 1"},
        came={"high pending 2-0 me 2"},
    )


def test_entries_that_others_hold_are_not_read(shard: Shard) -> None:
    shard.deliver("high", "1-0", "other", idle_ms=10**9)
    before = shard.lines()

    reply = read(shard)

    assert reply.entries == []
    assert shard.changes_since(before) == NOTHING


def test_entry_without_a_body_comes_with_an_empty_one(shard: Shard) -> None:
    shard.client.xadd(shard.lane("high"), {"x": "m", "y": "z"}, id="1-0")

    reply = read(shard)

    assert reply.entries == [(1, "1-0", 1, "")]


def test_acks_go_before_the_read_and_refusals_are_told(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.deliver("high", "2-0", "other")
    shard.deliver("wake", "1-0", "me")
    shard.wait("high", "3-0")
    before = shard.lines()

    reply = read(shard, acks=[(1, "2-0", 1), (1, "1-0", 1), (0, "1-0", 1), (1, "1-0", 2)])

    assert reply.refused == [1, 4]
    assert reply.ids == [(1, "3-0")]
    assert shard.changes_since(before) == changes(
        gone={
            "high entry 1-0 m=high 1-0",
            "high pending 1-0 me 1",
            "wake entry 1-0 m=wake 1-0",
            "wake pending 1-0 me 1",
            "high last 2-0",
        },
        came={"high last 3-0", "high pending 3-0 me 1"},
    )


def test_refusals_and_entries_of_one_reply_are_kept_apart(shard: Shard) -> None:
    shard.wait("high", *(f"{number}-0" for number in range(1, 301)))
    acks: list[Any] = [(1, f"{number}-0", 1) for number in range(1000, 1500)]

    reply = read(shard, budget=300, acks=acks)

    assert reply.refused == list(range(1, 501))
    assert reply.ids == [(1, f"{number}-0") for number in range(1, 301)]


def test_missing_queue_is_reported_and_not_created(empty_shard: Shard) -> None:
    with pytest.raises(GroupMissing):
        read(empty_shard)

    assert empty_shard.lines() == frozenset()


def test_missing_queue_has_refused_acks_all_the_same(empty_shard: Shard) -> None:
    reply = read(empty_shard, budget=0, acks=[(1, "1-0", 1)])

    assert reply.refused == [1]


def test_one_missing_lane_is_reported(shard: Shard) -> None:
    shard.client.delete(shard.lane("low"))
    shard.deliver("high", "1-0", "me")

    with pytest.raises(GroupMissing):
        read(shard, acks=[(1, "1-0", 1)])

    assert "high entry 1-0 m=high 1-0" not in shard.lines()


def test_watch_returns_where_to_wait_from_when_there_was_nothing(shard: Shard) -> None:
    shard.wait("high", "5-0")
    read(shard)
    before = shard.lines()

    reply = read(shard, watch=1)

    assert reply.entries == []
    assert reply.last_ids == ["0-0", "5-0", "0-0", "0-0"]
    assert shard.changes_since(before) == NOTHING


def test_watch_returns_nothing_to_wait_from_when_there_was_something(shard: Shard) -> None:
    shard.wait("low", "1-0")

    reply = read(shard, watch=1, budget=1)

    assert reply.ids == [(3, "1-0")]
    assert reply.last_ids == []
