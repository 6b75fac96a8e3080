from typing import Any

from dramatiq_streams.keys import GROUP, RELEASED
from tests.scripts.shard import NOTHING, Shard


def inspect(shard: Shard, *, lease: int = 60_000) -> list[Any]:
    return shard.scripts.inspect(
        paused=shard.keys.paused,
        cancelled=shard.keys.cancelled,
        counts=shard.keys.counts,
        delayed=shard.keys.delayed,
        dead=shard.keys.dead,
        consumers=shard.keys.consumers,
        lanes=shard.keys.lanes,
        group=GROUP,
        released=RELEASED,
        lease=lease,
    )


def lane(reply: list[Any], position: int) -> list[int]:
    return reply[9 + 5 * position : 14 + 5 * position]


def test_empty_queue_has_nothing_and_the_time(empty_shard: Shard) -> None:
    started_ms = empty_shard.now_ms()

    time_ms, *rest = inspect(empty_shard)

    assert started_ms <= time_ms <= empty_shard.now_ms()
    assert rest == [-1, 0, 0, 0, -1, 0, -1, 0, *[0, -1, 0, -1, -1] * 3]
    assert empty_shard.lines() == frozenset()


def test_waiting_held_and_released_entries_are_told_apart(shard: Shard) -> None:
    shard.release("high", "5-0")
    shard.deliver("high", "7-0", "me")
    shard.deliver("high", "8-0", "other")
    shard.wait("high", "9-0")
    shard.wait("low", "3-0", "4-0")
    before = shard.lines()

    reply = inspect(shard)

    assert lane(reply, 0)[:4] == [2, 5, 2, 7]
    assert lane(reply, 1)[:4] == [0, -1, 0, -1]
    assert lane(reply, 2)[:4] == [2, 3, 0, -1]
    assert shard.changes_since(before) == NOTHING


def test_oldest_waiting_entry_is_the_first_that_was_not_delivered(shard: Shard) -> None:
    shard.deliver("high", "5-0", "me")
    shard.wait("high", "6-0")

    reply = inspect(shard)

    assert lane(reply, 0)[:4] == [1, 6, 1, 5]


def test_first_deliveries_are_counted_where_the_server_counts_them(shard: Shard) -> None:
    shard.wait("high", "1-0", "2-0")
    shard.read_new("high")

    reply = inspect(shard)

    assert lane(reply, 0)[4] == (-1 if shard.is_redis62() else 2)


def test_what_lies_beside_the_lanes_is_counted(shard: Shard) -> None:
    shard.client.set(shard.keys.paused, 17)
    shard.client.zadd(shard.keys.cancelled, {"low:1-0": 5, "low:2-0": 5})
    shard.client.hset(shard.keys.counts, "cancelled", 40)
    shard.delay("d1", "low:late", 10**12)
    shard.delay("d2", "low:later", 10**13)
    shard.client.xadd(shard.keys.dead, {"m": "dead"}, id="11-0")
    shard.client.xadd(shard.keys.dead, {"m": "dead"}, id="12-0")

    reply = inspect(shard)

    assert reply[1:9] == [17, 2, 40, 2, 10**12, 2, 11, 0]


def test_only_consumers_within_their_lease_count(shard: Shard) -> None:
    now_ms = shard.now_ms()
    shard.client.zadd(shard.keys.consumers, {"dead": now_ms - 120_000, "alive": now_ms - 1_000})

    reply = inspect(shard)

    assert reply[8] == 1
