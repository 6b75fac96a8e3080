from dramatiq_streams.keys import GROUP, RELEASED
from tests.scripts.shard import NOTHING, Shard, changes


def cancel(shard: Shard, lane: str, entry: str) -> bytes:
    return shard.scripts.cancel(
        lane=shard.lane(lane),
        cancelled=shard.keys.cancelled,
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        group=GROUP,
        released=RELEASED,
        lane_name=lane,
        entry=entry,
    )


def test_waiting_entry_is_marked_and_stays_in_its_place(shard: Shard) -> None:
    shard.wait("low", "1-0", "2-0")
    before = shard.lines()

    holder = cancel(shard, "low", "1-0")

    assert holder == b""
    assert shard.changes_since(before) == changes(came={"cancelled zset", "cancelled low:1-0 now"})


def test_entry_that_was_given_back_counts_as_waiting(shard: Shard) -> None:
    shard.release("high", "1-0")

    holder = cancel(shard, "high", "1-0")

    assert holder == b""
    assert "cancelled high:1-0 now" in shard.lines()


def test_holder_of_a_delivered_entry_is_named_and_the_mark_is_for_the_next_time(
    shard: Shard,
) -> None:
    shard.deliver("high", "1-0", "me")
    before = shard.lines()

    holder = cancel(shard, "high", "1-0")

    assert holder == b"me"
    assert shard.changes_since(before) == changes(came={"cancelled zset", "cancelled high:1-0 now"})


def test_entry_that_is_gone_is_not_marked(shard: Shard) -> None:
    before = shard.lines()

    holder = cancel(shard, "high", "1-0")

    assert holder == b"gone"
    assert shard.changes_since(before) == NOTHING


def test_lane_without_a_group_can_hold_a_cancelled_entry(empty_shard: Shard) -> None:
    empty_shard.wait("low", "1-0")

    holder = cancel(empty_shard, "low", "1-0")

    assert holder == b""
