import pytest

from dramatiq_streams.errors import ServerOutOfMemory
from tests.scripts.shard import NOTHING, WAKE_UP, Shard, changes

UNIQUE_FOR_MS = 5_000


def enqueue(
    shard: Shard,
    delivery: str,
    message_id: str,
    *,
    key: str = "k",
    again: int = 0,
    delay: int = -1,
    unique_for: int = UNIQUE_FOR_MS,
    body: bytes = b"body",
) -> bytes:
    return shard.scripts.enqueue_unique(
        wake=shard.keys.wake,
        delayed=shard.keys.delayed,
        delayed_messages=shard.keys.delayed_messages,
        lane=shard.lane("low"),
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        unique_key=key,
        ttl=unique_for,
        message_id=message_id,
        again=again,
        delivery=delivery,
        lane_name="low",
        message=body,
        delay=delay,
    )


def ends_in_ms(shard: Shard, key: str = "k") -> float:
    score = shard.client.zscore(shard.keys.unique, key)
    assert isinstance(score, float)
    return score - shard.now_ms()


def test_first_message_goes_to_its_lane_and_has_the_key(shard: Shard) -> None:
    before = shard.lines()

    holder = enqueue(shard, "t1", "m1")

    assert holder == b""
    assert shard.changes_since(before) == changes(
        came={
            "low entry new m=body u=t1:k",
            "unique zset",
            "unique k now",
            "unique:messages hash",
            "unique:messages k t1:m1",
        }
    )
    assert UNIQUE_FOR_MS - 1_000 < ends_in_ms(shard) <= UNIQUE_FOR_MS


@pytest.mark.parametrize("delay", [-1, 1_000])
def test_second_message_learns_who_has_the_key_and_changes_nothing(
    shard: Shard, delay: int
) -> None:
    enqueue(shard, "t1", "m1")
    before = shard.lines()

    holder = enqueue(shard, "t2", "m2", delay=delay)

    assert holder == b"m1"
    assert shard.changes_since(before) == NOTHING


@pytest.mark.parametrize("delay", [-1, 1_000])
def test_repeating_it_with_the_same_delivery_changes_nothing(shard: Shard, delay: int) -> None:
    enqueue(shard, "t1", "m1", delay=delay)
    before = shard.lines()

    holder = enqueue(shard, "t1", "m1", delay=delay)

    assert holder == b""
    assert shard.changes_since(before) == NOTHING


def test_repeating_it_after_the_delivery_has_ended_changes_nothing(shard: Shard) -> None:
    enqueue(shard, "t1", "m1")
    start(shard)

    holder = enqueue(shard, "t1", "m1")

    assert holder == b""
    assert shard.reserved() == {"k": "t1-"}
    assert shard.client.xlen(shard.lane("low")) == 1


def test_key_that_was_freed_is_for_the_next_message(shard: Shard) -> None:
    enqueue(shard, "t1", "m1")
    start(shard)

    holder = enqueue(shard, "t2", "m2")

    assert holder == b""
    assert shard.reserved() == {"k": "t2:m2"}


def test_message_that_has_the_key_is_named_when_it_is_sent_by_itself_again(shard: Shard) -> None:
    enqueue(shard, "t1", "m1")
    before = shard.lines()

    holder = enqueue(shard, "t2", "m1")

    assert holder == b"m1"
    assert shard.changes_since(before) == NOTHING


def test_message_may_follow_itself_and_then_its_new_delivery_has_the_key(shard: Shard) -> None:
    enqueue(shard, "t1", "m1")

    holder = enqueue(shard, "t2", "m1", again=1)

    assert holder == b""
    assert shard.reserved() == {"k": "t2:m1"}
    assert [fields[b"u"] for fields in shard.stored(shard.lane("low"))] == [b"t1:k", b"t2:k"]


def test_another_message_may_not_follow(shard: Shard) -> None:
    enqueue(shard, "t1", "m1")

    assert enqueue(shard, "t2", "m2", again=1) == b"m1"


def test_delayed_message_has_the_key_from_now_until_after_its_delay(shard: Shard) -> None:
    before = shard.lines()

    enqueue(shard, "t1", "m1", delay=600_000)

    assert shard.changes_since(before) == changes(
        came={
            "delayed zset",
            f"delayed t1 {shard.eta('t1')}",
            "delayed:messages hash",
            "delayed:messages t1 low/4:t1:kbody",
            "unique zset",
            f"unique k {shard.eta('t1') + UNIQUE_FOR_MS}",
            "unique:messages hash",
            "unique:messages k t1:m1",
            WAKE_UP,
        }
    )


def test_reservation_ends_by_itself(shard: Shard) -> None:
    shard.reserve("k", "t1", "m1", ends_in_ms=-1)

    holder = enqueue(shard, "t2", "m2")

    assert holder == b""
    assert shard.reserved() == {"k": "t2:m2"}


def test_keys_do_not_hinder_each_other(shard: Shard) -> None:
    enqueue(shard, "t1", "m1", key="k")

    assert enqueue(shard, "t2", "m2", key="l") == b""


def test_a_few_ended_reservations_are_forgotten_with_each_message(shard: Shard) -> None:
    for number in range(12):
        shard.reserve(f"old {number}", "t0", "m0", ends_in_ms=-60_000 + number)

    enqueue(shard, "t1", "m1")

    assert shard.reserved() == {"old 10": "t0:m0", "old 11": "t0:m0", "k": "t1:m1"}
    assert shard.client.zcard(shard.keys.unique) == 3


@pytest.mark.parametrize("delay", [-1, 600_000])
def test_key_and_body_are_kept_byte_for_byte(shard: Shard, delay: int) -> None:
    key, body = "ключ:/\n%s", bytes(range(256)) + b":/\r\n"

    enqueue(shard, "t1", "m:1-2", key=key, body=body, delay=delay)

    assert enqueue(shard, "t2", "m2", key=key) == b"m:1-2"
    if delay > 0:
        [packed] = shard.client.hvals(shard.keys.delayed_messages)
        assert packed == b"low/%d:t1:%s%s" % (len(key.encode()) + 3, key.encode(), body)
    else:
        assert shard.stored(shard.lane("low")) == [{b"m": body, b"u": b"t1:" + key.encode()}]


@pytest.mark.parametrize("delay", [-1, 600_000])
def test_full_memory_refuses_and_reserves_nothing(fillable_shard: Shard, delay: int) -> None:
    fillable_shard.reserve("old", "t0", "m0", ends_in_ms=-1)
    before = fillable_shard.lines()
    fillable_shard.fill_memory()

    with pytest.raises(ServerOutOfMemory):
        enqueue(fillable_shard, "t1", "m1", delay=delay)

    assert fillable_shard.changes_since(before) == NOTHING


def start(shard: Shard) -> None:
    """Free the key of the first entry of the lane `low`."""
    [(entry, _), *_] = shard.client.xrange(shard.lane("low")) or []
    shard.scripts.start_unique(
        lane=shard.lane("low"),
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        entry=entry.decode(),
    )
