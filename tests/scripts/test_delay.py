import pytest

from dramatiq_streams.errors import ServerOutOfMemory
from tests.scripts.shard import NOTHING, WAKE_UP, Shard, changes


def delay(
    shard: Shard, delivery: str, milliseconds: int, *, lane: str = "low", body: bytes = b"body"
) -> int:
    return shard.scripts.delay(
        wake=shard.keys.wake,
        delayed=shard.keys.delayed,
        delayed_messages=shard.keys.delayed_messages,
        delivery=delivery,
        lane_name=lane,
        message=body,
        delay=milliseconds,
    )


def test_first_delayed_message_is_kept_and_wakes_a_consumer(shard: Shard) -> None:
    before = shard.lines()

    eta = delay(shard, "d1", 3_600_000)

    assert shard.changes_since(before) == changes(
        came={
            "delayed zset",
            f"delayed d1 {eta}",
            "delayed:messages hash",
            "delayed:messages d1 low:body",
            WAKE_UP,
        }
    )


def test_eta_is_the_servers_time_and_the_delay(shard: Shard) -> None:
    earliest = shard.now_ms() + 5_000

    eta = delay(shard, "d1", 5_000)

    assert earliest <= eta <= shard.now_ms() + 5_000


def test_later_message_wakes_nobody(shard: Shard) -> None:
    shard.delay("d0", "low:first", shard.now_ms() + 1_000)
    before = shard.lines()

    eta = delay(shard, "d1", 3_600_000)

    assert shard.changes_since(before) == changes(
        came={f"delayed d1 {eta}", "delayed:messages d1 low:body"}
    )


def test_earlier_message_wakes_a_consumer(shard: Shard) -> None:
    shard.delay("d0", "low:first", shard.now_ms() + 7_200_000)
    before = shard.lines()

    eta = delay(shard, "d1", 3_600_000)

    assert shard.changes_since(before) == changes(
        came={f"delayed d1 {eta}", "delayed:messages d1 low:body", WAKE_UP}
    )


def test_wake_up_calls_do_not_pile_up(shard: Shard) -> None:
    for number in range(5):
        delay(shard, f"d{number}", 10_000_000 - number * 1_000_000)

    assert shard.client.xlen(shard.keys.wake) == 1


def test_same_delivery_again_moves_its_eta_and_adds_nothing(shard: Shard) -> None:
    first = delay(shard, "d1", 3_600_000, body=b"old")
    before = shard.lines()

    second = delay(shard, "d1", 7_200_000, lane="high", body=b"new")

    assert shard.changes_since(before) == changes(
        gone={f"delayed d1 {first}", "delayed:messages d1 low:old"},
        came={f"delayed d1 {second}", "delayed:messages d1 high:new"},
    )


def test_body_is_kept_byte_for_byte(shard: Shard) -> None:
    body = bytes(range(256)) + b":%s\r\n"

    delay(shard, "d1", 1_000, body=body)

    assert shard.client.hget(shard.keys.delayed_messages, "d1") == b"low:" + body


def test_delay_of_zero_is_due_at_once(shard: Shard) -> None:
    eta = delay(shard, "d1", 0)

    assert eta <= shard.now_ms()


def test_longest_delay_is_exact(shard: Shard) -> None:
    before_ms = shard.now_ms()

    eta = delay(shard, "d1", 10**13)

    assert 0 <= eta - 10**13 - before_ms < 60_000
    assert shard.client.zscore(shard.keys.delayed, "d1") == eta


def test_queue_that_nobody_ever_read_takes_delayed_messages(empty_shard: Shard) -> None:
    eta = delay(empty_shard, "d1", 3_600_000)

    assert empty_shard.lines() == {
        "delayed zset",
        f"delayed d1 {eta}",
        "delayed:messages hash",
        "delayed:messages d1 low:body",
        "wake stream",
        WAKE_UP,
    }


def test_full_memory_refuses_and_stores_nothing(fillable_shard: Shard) -> None:
    before = fillable_shard.lines()
    fillable_shard.fill_memory()

    with pytest.raises(ServerOutOfMemory, match="stored nothing"):
        delay(fillable_shard, "d1", 1_000)

    assert fillable_shard.changes_since(before) == NOTHING
