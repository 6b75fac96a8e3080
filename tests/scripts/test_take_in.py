import time

import pytest

from dramatiq_streams.errors import ServerOutOfMemory
from tests.scripts.shard import NOTHING, WAKE_UP, Shard, changes

TTL_MS = 3_600_000


def take_in(
    shard: Shard,
    row: int,
    *,
    previous: int = 0,
    spool: str = "spool",
    body: bytes = b"body",
    delay: int = -1,
    delivery: str = "d1",
    unique_key: str = "",
    message_id: str = "m1",
) -> int:
    return shard.scripts.take_in(
        wake=shard.keys.wake,
        delayed=shard.keys.delayed,
        delayed_messages=shard.keys.delayed_messages,
        lane=shard.lane("low"),
        spools=shard.keys.spools,
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        spool=spool,
        row=row,
        previous=previous,
        delivery=delivery,
        lane_name="low",
        message=body,
        delay=delay,
        ttl=TTL_MS,
        unique_key=unique_key,
        unique_for=5_000,
        message_id=message_id,
    )


def test_message_goes_to_its_lane_and_its_row_is_noted(shard: Shard) -> None:
    before = shard.lines()

    taken = take_in(shard, 7)

    assert taken == 1
    assert shard.changes_since(before) == changes(
        came={"low entry new m=body", "spools hash", "spools spool 7"}
    )


def test_delayed_message_is_held_back(shard: Shard) -> None:
    before = shard.lines()

    take_in(shard, 7, delay=3_600_000)

    eta = shard.eta("d1")
    assert shard.changes_since(before) == changes(
        came={
            "delayed zset",
            f"delayed d1 {eta}",
            "delayed:messages hash",
            "delayed:messages d1 low:body",
            "spools hash",
            "spools spool 7",
            WAKE_UP,
        }
    )


@pytest.mark.parametrize("delay", [-1, 3_600_000])
@pytest.mark.parametrize("row", [7, 6, 1])
def test_row_that_came_before_changes_nothing(shard: Shard, row: int, delay: int) -> None:
    take_in(shard, 7)
    before = shard.lines()

    taken = take_in(shard, row, delay=delay)

    assert taken == 0
    assert shard.changes_since(before) == NOTHING


def test_row_whose_predecessor_is_missing_changes_nothing(shard: Shard) -> None:
    take_in(shard, 7)
    before = shard.lines()

    taken = take_in(shard, 9, previous=8)

    assert taken == -1
    assert shard.changes_since(before) == NOTHING


def test_rows_come_one_after_the_other(shard: Shard) -> None:
    rows = [(10**15 + 1, 0), (10**15 + 2, 10**15 + 1), (10**15 + 9, 10**15 + 2)]

    taken = [take_in(shard, row, previous=previous) for row, previous in rows]

    assert taken == [1, 1, 1]
    assert shard.client.hget(shard.keys.spools, "spool") == b"%d" % (10**15 + 9)


def test_spools_do_not_hinder_each_other(shard: Shard) -> None:
    take_in(shard, 7)

    assert take_in(shard, 3, spool="other") == 1


def test_spool_is_forgotten_after_a_while(shard: Shard) -> None:
    take_in(shard, 7)

    assert TTL_MS - 60_000 < shard.client.pttl(shard.keys.spools) <= TTL_MS


def test_old_spools_are_forgotten_one_by_one_when_new_ones_come(shard: Shard) -> None:
    now_us = time.time_ns() // 1000
    an_hour_ago, long_ago = now_us - TTL_MS * 1000, now_us - 2 * TTL_MS * 1000
    kept = {"late": str(an_hour_ago + 60_000_000), "of a migration": "5"}
    old = {f"old {number}": str(long_ago + number) for number in range(20)}
    for name, row in (*kept.items(), *old.items()):
        shard.client.hset(shard.keys.spools, name, row)

    for number in range(200):
        assert take_in(shard, now_us + number, spool=f"new {number}") == 1

    found = {name.decode(): row for name, row in shard.client.hgetall(shard.keys.spools).items()}
    assert found.keys() >= {*kept, *(f"new {number}" for number in range(200))}
    # Each is looked at with a chance of 99 in 100.
    assert len(found.keys() & old.keys()) < 10


def test_body_is_kept_byte_for_byte(shard: Shard) -> None:
    body = bytes(range(256)) + b":%s\r\n"

    take_in(shard, 7, body=body)

    assert shard.stored(shard.lane("low")) == [{b"m": body}]


@pytest.mark.parametrize("delay", [-1, 3_600_000])
def test_full_memory_refuses_stores_nothing_and_notes_nothing(
    fillable_shard: Shard, delay: int
) -> None:
    before = fillable_shard.lines()
    fillable_shard.fill_memory()

    with pytest.raises(ServerOutOfMemory, match="stored nothing"):
        take_in(fillable_shard, 7, delay=delay)

    assert fillable_shard.changes_since(before) == NOTHING
