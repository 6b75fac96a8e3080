from dramatiq_streams.keys import GROUP
from tests.scripts.shard import NOTHING, Shard


def purge(shard: Shard) -> list[int]:
    return shard.scripts.purge(
        delayed=shard.keys.delayed,
        delayed_messages=shard.keys.delayed_messages,
        dead=shard.keys.dead,
        dead_expiries=shard.keys.dead_expiries,
        cancelled=shard.keys.cancelled,
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        wake=shard.keys.wake,
        lanes=shard.keys.lanes,
        group=GROUP,
    )


def empty_streams(*streams: str) -> set[str]:
    return {
        f"{stream} {fact}" for stream in streams for fact in ("stream", "group workers", "last 0-0")
    }


def test_all_messages_are_dropped_and_the_streams_stay(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.wait("high", "2-0")
    shard.release("default", "1-0")
    shard.wait("low", "1-0", "2-0")
    shard.delay("d1", "low:late", 10**13)
    shard.client.xadd(shard.keys.dead, {"m": "dead"})
    shard.deliver("wake", "1-0", "me")

    dropped = purge(shard)

    assert dropped == [6, 1]
    assert shard.lines() == empty_streams("wake", "high", "default", "low")


def test_ids_never_come_again_so_that_a_late_ack_hits_nothing(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    future = f"{shard.now_ms() + 3_600_000}-5"
    shard.deliver("high", future, "me")

    purge(shard)

    added = shard.client.xadd(shard.lane("high"), {"m": "next"})
    assert added == future.replace("-5", "-6").encode()
    refused = shard.scripts.ack(
        wake=shard.keys.wake,
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        lanes=shard.keys.lanes,
        group=GROUP,
        consumer="me",
        acks=[(1, "1-0", 1), (1, future, 1)],
    )
    assert refused == [1, 2]


def test_messages_sent_after_a_purge_are_delivered(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    purge(shard)

    shard.wait("high", "2-0")

    assert shard.read_new("high") == ["2-0"]


def test_heartbeats_stay(shard: Shard) -> None:
    shard.client.zadd(shard.keys.consumers, {"me": 1_000})

    purge(shard)

    assert "consumers me 1000" in shard.lines()


def test_queue_that_does_not_exist_is_not_created(empty_shard: Shard) -> None:
    dropped = purge(empty_shard)

    assert dropped == [0, 0]
    assert empty_shard.lines() == frozenset()


def test_queue_without_workers_is_emptied_and_gets_its_group(empty_shard: Shard) -> None:
    empty_shard.wait("low", "1-0")
    empty_shard.delay("d1", "low:late", 10**13)

    dropped = purge(empty_shard)

    assert dropped == [2, 0]
    assert empty_shard.lines() == empty_streams("low")


def test_empty_queue_stays_as_it_is(shard: Shard) -> None:
    before = shard.lines()

    dropped = purge(shard)

    assert dropped == [0, 0]
    assert shard.changes_since(before) == NOTHING


def test_full_memory_does_not_hinder_a_purge(fillable_shard: Shard) -> None:
    fillable_shard.deliver("high", "1-0", "me")
    fillable_shard.delay("d1", "low:late", 10**13)
    fillable_shard.client.xadd(fillable_shard.keys.dead, {"m": "dead"})
    fillable_shard.fill_memory()

    dropped = purge(fillable_shard)

    assert dropped == [2, 1]
    assert fillable_shard.lines() == empty_streams("wake", "high", "default", "low")


def test_paused_queue_stays_paused(shard: Shard) -> None:
    shard.scripts.pause(paused=shard.keys.paused, wake=shard.keys.wake, group=GROUP)
    shard.wait("high", "1-0")

    purge(shard)

    lines = shard.lines()
    assert "paused string" in lines
    assert "wake group workers" not in lines


def test_marks_of_cancelled_messages_go_with_the_messages(shard: Shard) -> None:
    shard.wait("high", "1-0")
    shard.client.zadd(shard.keys.cancelled, {"high:1-0": 1})

    purge(shard)

    assert not shard.client.exists(shard.keys.cancelled)
