"""What operators have ordered, as a read obeys it: paused queues and cancelled messages."""

from dramatiq_streams.keys import GROUP
from tests.scripts.reading import read
from tests.scripts.shard import Shard, changes


def mark(shard: Shard, *marks: str) -> None:
    shard.client.zadd(shard.keys.cancelled, {name: index for index, name in enumerate(marks, 1)})


def test_paused_queue_delivers_nothing_neither_new_nor_given_back(shard: Shard) -> None:
    shard.release("high", "1-0")
    shard.wait("high", "2-0")
    shard.client.set(shard.keys.paused, 5)
    before = shard.lines()

    reply = read(shard, shares=(0, 2, 2))

    assert reply.is_paused
    assert reply.entries == []
    assert shard.changes_since(before) == changes()


def test_paused_queue_settles_acks_and_forwards_what_is_due(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.delay("d1", "low:due", 1)
    shard.client.set(shard.keys.paused, 5)

    reply = read(shard, acks=[(1, "1-0", 1)])

    assert (reply.refused, reply.forwarded) == ([], 1)
    assert "low entry new m=due" in shard.lines()
    assert "high entry 1-0 m=high 1-0" not in shard.lines()


def test_queue_that_is_not_paused_says_so(shard: Shard) -> None:
    mark(shard, "low:1-0")

    assert not read(shard).is_paused


def test_cancelled_entries_are_dropped_when_they_are_read(shard: Shard) -> None:
    shard.release("high", "1-0")
    shard.wait("high", "2-0", "3-0")
    mark(shard, "high:1-0", "high:3-0")
    before = shard.lines()

    reply = read(shard)

    assert reply.ids == [(1, "2-0")]
    assert shard.changes_since(before) == changes(
        gone={
            "high last 1-0",
            "high entry 1-0 m=high 1-0",
            "high pending 1-0 released 1",
            "high entry 3-0 m=high 3-0",
            "cancelled zset",
            "cancelled high:3-0 2",
            "cancelled high:1-0 1",
        },
        came={"high last 3-0", "high pending 2-0 me 1", "counts hash", "counts cancelled 2"},
    )


def test_cancelled_entry_that_somebody_holds_is_left_alone(shard: Shard) -> None:
    shard.deliver("high", "1-0", "other")
    mark(shard, "high:1-0")

    reply = read(shard)

    assert reply.entries == []
    assert "high pending 1-0 other 1" in shard.lines()
    assert "cancelled high:1-0 now" in shard.lines()


def test_mark_of_an_entry_that_is_gone_is_forgotten_one_a_read(shard: Shard) -> None:
    shard.wait("high", "3-0")
    mark(shard, "high:1-0", "nowhere:1-0", "nonsense")

    counts = []
    for _ in range(3):
        read(shard, budget=0)
        counts.append(shard.client.zcard(shard.keys.cancelled))

    assert counts == [2, 1, 0]


def test_mark_that_is_still_needed_does_not_keep_others_from_being_forgotten(
    shard: Shard,
) -> None:
    shard.deliver("high", "1-0", "other")
    mark(shard, "high:1-0", "high:2-0")

    read(shard)
    read(shard)

    assert shard.client.zrange(shard.keys.cancelled, 0, -1) == [b"high:1-0"]


def test_nothing_is_blocked_for_long_by_cancelled_entries_in_front(shard: Shard) -> None:
    shard.wait("high", *(f"{number}-0" for number in range(1, 8)))
    mark(shard, *(f"high:{number}-0" for number in range(1, 7)))

    delivered = [read(shard, budget=3).ids for _ in range(3)]

    assert delivered == [[], [], [(1, "7-0")]]


def test_full_memory_does_not_bring_cancelled_entries_back(fillable_shard: Shard) -> None:
    fillable_shard.wait("high", "1-0")
    mark(fillable_shard, "high:1-0")
    fillable_shard.client.execute_command(
        "XREADGROUP", "GROUP", GROUP, "me", "STREAMS", fillable_shard.lane("low"), ">"
    )
    fillable_shard.fill_memory()

    reply = read(fillable_shard)

    assert reply.entries == []
    assert fillable_shard.client.xlen(fillable_shard.lane("high")) == 0
