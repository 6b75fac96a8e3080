from tests.scripts.shard import NOTHING, Shard, changes


def cancel_delayed(shard: Shard, delivery: str) -> int:
    return shard.scripts.cancel_delayed(
        delayed=shard.keys.delayed,
        delayed_messages=shard.keys.delayed_messages,
        counts=shard.keys.counts,
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        delivery=delivery,
    )


def test_delayed_message_is_removed_at_once_and_counted(shard: Shard) -> None:
    shard.delay("d1", "low:late", 10**13)
    shard.delay("d2", "low:other", 10**13)
    before = shard.lines()

    did = cancel_delayed(shard, "d1")

    assert did == 1
    assert shard.changes_since(before) == changes(
        gone={f"delayed d1 {10**13}", "delayed:messages d1 low:late"},
        came={"counts hash", "counts cancelled 1"},
    )


def test_message_that_was_forwarded_meanwhile_is_not_counted(shard: Shard) -> None:
    before = shard.lines()

    did = cancel_delayed(shard, "d1")

    assert did == 0
    assert shard.changes_since(before) == NOTHING


def test_full_memory_does_not_hinder_it(fillable_shard: Shard) -> None:
    fillable_shard.delay("d1", "low:late", 10**13)
    fillable_shard.fill_memory()

    did = cancel_delayed(fillable_shard, "d1")

    assert did == 1
    assert not fillable_shard.client.exists(fillable_shard.keys.delayed)
