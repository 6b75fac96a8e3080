from dramatiq_streams.keys import GROUP
from tests.scripts.shard import NOTHING, Shard
from tests.scripts.test_pause import pause


def resume(shard: Shard) -> int:
    return shard.scripts.resume(paused=shard.keys.paused, wake=shard.keys.wake, group=GROUP)


def test_resumed_queue_is_as_it_was_before_the_pause(shard: Shard) -> None:
    shard.wait("low", "1-0")
    before = shard.lines()
    pause(shard)

    did = resume(shard)

    assert did == 1
    assert shard.changes_since(before) == NOTHING


def test_queue_that_is_not_paused_stays_as_it_is(shard: Shard) -> None:
    before = shard.lines()

    did = resume(shard)

    assert did == 0
    assert shard.changes_since(before) == NOTHING


def test_queue_that_does_not_exist_is_not_created(empty_shard: Shard) -> None:
    did = resume(empty_shard)

    assert did == 0
    assert empty_shard.lines() == frozenset()


def test_full_memory_does_not_hinder_a_resume(fillable_shard: Shard) -> None:
    pause(fillable_shard)
    fillable_shard.fill_memory()

    did = resume(fillable_shard)

    assert did == 1
    assert fillable_shard.client.exists(fillable_shard.keys.paused) == 0
