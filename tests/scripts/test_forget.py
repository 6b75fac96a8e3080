import pytest

from dramatiq_streams.keys import GROUP
from tests.scripts.shard import NOTHING, WAKE_UP, Shard, changes

REGISTERED = {
    *{"consumers zset", "consumers gone 5000"},
    *{"connections hash", "connections gone 7 8"},
    *{"host:h hash", "host:h gone 10 20"},
}


def register(shard: Shard, consumer: str = "gone") -> None:
    """As its heartbeat did, at 5000; and as its reads did on each stream."""
    shard.client.zadd(shard.keys.consumers, {consumer: 5_000})
    shard.client.hset(shard.keys.connections, consumer, "7 8")
    shard.client.hset(shard.keys.host("h"), consumer, "10 20")
    for lane in ("wake", "high", "default", "low"):
        shard.client.xgroup_createconsumer(shard.lane(lane), GROUP, consumer)


def consumers(shard: Shard, lane: str) -> set[bytes]:
    return {found["name"] for found in shard.client.xinfo_consumers(shard.lane(lane), GROUP)}


def forget(shard: Shard, *, heartbeat: str = "") -> int:
    return shard.scripts.forget(
        consumers=shard.keys.consumers,
        connections=shard.keys.connections,
        host=shard.keys.host("h"),
        wake=shard.keys.wake,
        delayed=shard.keys.delayed,
        lanes=shard.keys.lanes,
        group=GROUP,
        consumer="gone",
        heartbeat=heartbeat,
    )


@pytest.mark.parametrize("heartbeat", ["", "5000"])
def test_consumer_that_holds_nothing_is_removed_everywhere(shard: Shard, heartbeat: str) -> None:
    before = shard.lines()
    register(shard)

    removed = forget(shard, heartbeat=heartbeat)

    assert removed == 1
    assert shard.changes_since(before) == NOTHING
    assert [consumers(shard, lane) for lane in ("wake", "high", "default", "low")] == [set()] * 4


def test_another_one_is_woken_to_wait_for_what_is_delayed(shard: Shard) -> None:
    shard.delay("a", "default:body", shard.now_ms() + 3_600_000)
    before = shard.lines()
    register(shard)

    forget(shard)

    assert shard.changes_since(before) == changes(came={WAKE_UP})


def test_others_stay(shard: Shard) -> None:
    register(shard, "other")
    before = shard.lines()
    register(shard)

    forget(shard)

    assert shard.changes_since(before) == NOTHING
    assert consumers(shard, "high") == {b"other"}


@pytest.mark.parametrize("lane", ["high", "low"])
def test_consumer_that_holds_anything_stays(shard: Shard, lane: str) -> None:
    register(shard)
    shard.deliver(lane, "1-0", "gone")
    before = shard.lines()

    removed = forget(shard)

    assert removed == 0
    assert shard.changes_since(before) == NOTHING
    assert consumers(shard, lane) == {b"gone"}


@pytest.mark.parametrize(
    "judged_by", ["4999", "9000"], ids=["newer", "after-the-clock-was-set-back"]
)
def test_consumer_with_another_heartbeat_stays(shard: Shard, judged_by: str) -> None:
    register(shard)
    before = shard.lines()

    removed = forget(shard, heartbeat=judged_by)

    assert removed == 0
    assert shard.changes_since(before) == NOTHING


def test_consumer_that_was_served_a_wake_up_call_is_removed_with_it(shard: Shard) -> None:
    shard.deliver("wake", "1-0", "gone")
    register(shard)

    removed = forget(shard)

    assert removed == 1
    assert "wake pending 1-0 gone 1" not in shard.lines()


def test_consumer_of_a_queue_that_was_flushed_is_removed(empty_shard: Shard) -> None:
    empty_shard.client.zadd(empty_shard.keys.consumers, {"gone": 5_000})

    assert forget(empty_shard) == 1
    assert empty_shard.lines() == frozenset()


def test_unknown_consumer_is_no_trouble(shard: Shard) -> None:
    before = shard.lines()

    assert forget(shard) == 1
    assert shard.changes_since(before) == NOTHING


def test_consumer_is_removed_when_memory_is_full(fillable_shard: Shard) -> None:
    register(fillable_shard)
    fillable_shard.fill_memory()

    assert forget(fillable_shard) == 1
    assert REGISTERED.isdisjoint(fillable_shard.lines())
