import pytest

from dramatiq_streams.keys import GROUP
from tests.scripts.shard import KEPT, NOTHING, TTL_MS, Shard, changes

ORIGINAL = {"high entry 1-0 m=high 1-0", "high pending 1-0 me 1"}


def reject(
    shard: Shard,
    *,
    deliveries: int = 1,
    message: bytes = b"body",
    ttl: int = TTL_MS,
    most: int = 1_000,
    is_unique: int = 0,
) -> int:
    return shard.scripts.reject(
        lane=shard.lane("high"),
        dead=shard.keys.dead,
        dead_expiries=shard.keys.dead_expiries,
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        group=GROUP,
        consumer="me",
        entry="1-0",
        deliveries=deliveries,
        lane_name="high",
        message=message,
        reason="failed",
        error="ValueError: no",
        ttl=ttl,
        most=most,
        is_unique=is_unique,
    )


def letter(body: str, *, deliveries: int = 1) -> str:
    text = "reason=failed error=ValueError: no lane=high"
    return f"dead entry new m={body} {text} entry=1-0 deliveries={deliveries}"


def test_delivery_becomes_a_dead_letter_that_says_why(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me", deliveries=3)
    before = shard.lines()

    done = reject(shard, deliveries=3)

    assert done == 1
    assert shard.changes_since(before) == changes(
        gone={"high entry 1-0 m=high 1-0", "high pending 1-0 me 3"},
        came={*KEPT, letter("body", deliveries=3)},
    )


def test_empty_message_keeps_the_body_as_it_was_stored(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    before = shard.lines()

    done = reject(shard, message=b"")

    assert done == 1
    assert shard.changes_since(before) == changes(gone=ORIGINAL, came={*KEPT, letter("high 1-0")})


def test_body_is_found_among_a_strangers_fields(shard: Shard) -> None:
    shard.client.xadd(shard.lane("high"), {"x": "m", "m": "found", "y": "z"}, id="1-0")
    shard.redeliver("high", "1-0", "me", deliveries=1)

    done = reject(shard, message=b"")

    assert done == 1
    assert letter("found") in shard.lines()


@pytest.mark.parametrize("is_deleted", [True, False])
def test_entry_without_a_body_is_dead_with_an_empty_one(shard: Shard, is_deleted: bool) -> None:
    shard.client.xadd(shard.lane("high"), {"x": "m"}, id="1-0")
    shard.redeliver("high", "1-0", "me", deliveries=1)
    if is_deleted:
        shard.delete("high", "1-0")

    done = reject(shard, message=b"")

    assert done == 1
    assert letter("") in shard.lines()
    assert not [line for line in shard.lines() if line.startswith(("high entry", "high pending"))]


@pytest.mark.parametrize(("consumer", "deliveries"), [("other", 1), ("me", 2), ("released", 1)])
def test_delivery_that_is_no_longer_held_cannot_be_rejected(
    shard: Shard, consumer: str, deliveries: int
) -> None:
    shard.deliver("high", "1-0", consumer, deliveries=deliveries)
    before = shard.lines()

    done = reject(shard)

    assert done == 0
    assert shard.changes_since(before) == NOTHING


def test_second_rejection_changes_nothing(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    reject(shard)
    before = shard.lines()

    done = reject(shard)

    assert done == 0
    assert shard.changes_since(before) == NOTHING


def test_queue_that_was_flushed_gets_no_dead_letter(empty_shard: Shard) -> None:
    done = reject(empty_shard)

    assert done == 0
    assert empty_shard.lines() == frozenset()


def test_dead_letters_whose_time_has_come_are_dropped_in_passing(shard: Shard) -> None:
    for number in range(1, 16):
        shard.bury(f"{number}-0", expires_ms=number)
    shard.bury("100-0", expires_ms=shard.now_ms() + 5_000)
    shard.deliver("high", "1-0", "me")

    assert reject(shard) == 1

    kept = {line for line in shard.lines() if line.startswith("dead")}
    assert {line.split()[2] for line in kept if line.startswith("dead entry")} == {
        *(f"{number}-0" for number in range(11, 16)),
        *("100-0", "new"),
    }
    assert "dead:expiries 100-0 in 5 s" in kept
    assert len(kept) == 2 + 2 * 7


def test_oldest_dead_letters_beyond_the_most_are_dropped_and_counted(shard: Shard) -> None:
    for number in range(1, 4):
        shard.bury(f"{number}-0", expires_ms=2**50)
    shard.deliver("high", "1-0", "me")

    assert reject(shard, most=2) == 1 + 2

    kept = {line.split()[2] for line in shard.lines() if line.startswith("dead entry")}
    assert kept == {"3-0", "new"}
    assert len(shard.client.zrange(shard.keys.dead_expiries, 0, -1)) == 2


def test_dead_letter_replaces_its_original_also_when_memory_is_full(fillable_shard: Shard) -> None:
    fillable_shard.deliver("high", "1-0", "me")
    fillable_shard.fill_memory()

    assert reject(fillable_shard) == 1

    lines = fillable_shard.lines()
    assert not any(line.startswith("high pending") for line in lines)
    assert any(line.startswith("dead ") for line in lines)
