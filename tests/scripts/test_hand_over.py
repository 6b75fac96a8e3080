import pytest

from dramatiq_streams.keys import GROUP
from tests.scripts.shard import NOTHING, WAKE_UP, Shard, changes

ORIGINAL = {"high entry 1-0 m=high 1-0", "high pending 1-0 me 1"}
DELAYED = {"delayed zset", "delayed:messages hash", "delayed:messages d1 low:retry"}


def hand_over(
    shard: Shard,
    *,
    delay: int,
    source: str = "high",
    target: str = "low",
    entry: str = "1-0",
    deliveries: int = 1,
    is_unique: int = 0,
) -> int:
    return shard.scripts.hand_over(
        wake=shard.keys.wake,
        delayed=shard.keys.delayed,
        delayed_messages=shard.keys.delayed_messages,
        source=shard.lane(source),
        target=shard.lane(target),
        group=GROUP,
        consumer="me",
        entry=entry,
        deliveries=deliveries,
        delivery="d1",
        lane_name=target,
        message=b"retry",
        delay=delay,
        is_unique=is_unique,
    )


def test_original_goes_as_its_delayed_retry_comes(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    before = shard.lines()

    done = hand_over(shard, delay=3_600_000)

    eta = shard.eta("d1")
    assert done == 1
    assert 0 <= shard.now_ms() + 3_600_000 - eta < 60_000
    assert shard.changes_since(before) == changes(
        gone=ORIGINAL, came={*DELAYED, f"delayed d1 {eta}", WAKE_UP}
    )


def test_later_retry_wakes_nobody(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.delay("d0", "low:first", 1_000)
    before = shard.lines()

    done = hand_over(shard, delay=3_600_000)

    eta = shard.eta("d1")
    assert done == 1
    assert shard.changes_since(before) == changes(
        gone=ORIGINAL, came={f"delayed d1 {eta}", "delayed:messages d1 low:retry"}
    )


def test_delay_of_zero_is_a_delay(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    before = shard.lines()

    done = hand_over(shard, delay=0)

    assert done == 1
    assert shard.changes_since(before) == changes(
        gone=ORIGINAL, came={*DELAYED, "delayed d1 now", WAKE_UP}
    )


def test_retry_without_delay_is_in_its_lane_at_once(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    before = shard.lines()

    done = hand_over(shard, delay=-1)

    assert done == 1
    assert shard.changes_since(before) == changes(gone=ORIGINAL, came={"low entry new m=retry"})


def test_retry_may_go_to_the_lane_it_came_from(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    before = shard.lines()

    done = hand_over(shard, delay=-1, target="high")

    assert done == 1
    assert shard.changes_since(before) == changes(gone=ORIGINAL, came={"high entry new m=retry"})


def test_target_that_does_not_exist_is_created(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.client.delete(shard.lane("low"))
    before = shard.lines()

    done = hand_over(shard, delay=-1)

    assert done == 1
    assert shard.changes_since(before) == changes(
        gone=ORIGINAL, came={"low stream", "low entry new m=retry"}
    )


@pytest.mark.parametrize("delay", [-1, 0, 1_000])
@pytest.mark.parametrize(("consumer", "deliveries"), [("other", 1), ("me", 2), ("released", 1)])
def test_delivery_that_is_no_longer_held_is_not_replaced(
    shard: Shard, delay: int, consumer: str, deliveries: int
) -> None:
    shard.deliver("high", "1-0", consumer, deliveries=deliveries)
    before = shard.lines()

    done = hand_over(shard, delay=delay)

    assert done == 0
    assert shard.changes_since(before) == NOTHING


def test_second_hand_over_changes_nothing(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    hand_over(shard, delay=3_600_000)
    before = shard.lines()

    done = hand_over(shard, delay=3_600_000)

    assert done == 0
    assert shard.changes_since(before) == NOTHING


def test_queue_that_was_flushed_gets_no_retry(empty_shard: Shard) -> None:
    done = hand_over(empty_shard, delay=-1)

    assert done == 0
    assert empty_shard.lines() == frozenset()


def test_original_deleted_from_its_stream_is_replaced_all_the_same(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.delete("high", "1-0")
    before = shard.lines()

    done = hand_over(shard, delay=-1)

    assert done == 1
    assert shard.changes_since(before) == changes(
        gone={"high pending 1-0 me 1"}, came={"low entry new m=retry"}
    )


@pytest.mark.parametrize("delay", [-1, 1_000])
def test_retry_replaces_its_original_also_when_memory_is_full(
    fillable_shard: Shard, delay: int
) -> None:
    fillable_shard.deliver("high", "1-0", "me")
    fillable_shard.fill_memory()

    assert hand_over(fillable_shard, delay=delay) == 1

    lines = fillable_shard.lines()
    assert not any(line.startswith("high pending") for line in lines)
    assert any("retry" in line for line in lines)
