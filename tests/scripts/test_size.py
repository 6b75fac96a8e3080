from tests.scripts.shard import NOTHING, Shard


def size(shard: Shard) -> int:
    return shard.scripts.size(delayed=shard.keys.delayed, lanes=shard.keys.lanes)


def test_waiting_delivered_released_and_delayed_messages_count(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.release("default", "1-0")
    shard.wait("low", "1-0", "2-0")
    shard.delay("d1", "low:late", 10**13)
    before = shard.lines()

    count = size(shard)

    assert count == 5
    assert shard.changes_since(before) == NOTHING


def test_dead_letters_and_wake_up_calls_do_not_count(shard: Shard) -> None:
    shard.client.xadd(shard.keys.dead, {"m": "dead"})
    shard.client.xadd(shard.keys.wake, {"w": "1"})

    count = size(shard)

    assert count == 0


def test_queue_that_does_not_exist_is_empty_and_not_created(empty_shard: Shard) -> None:
    count = size(empty_shard)

    assert count == 0
    assert empty_shard.lines() == frozenset()
