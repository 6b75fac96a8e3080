import pytest

from dramatiq_streams.errors import CommandFailed
from dramatiq_streams.keys import GROUP
from tests.scripts.shard import NOTHING, Shard, changes


def ensure_groups(shard: Shard) -> int:
    return shard.scripts.ensure_groups(
        paused=shard.keys.paused, wake=shard.keys.wake, lanes=shard.keys.lanes, group=GROUP
    )


def test_missing_streams_are_created_with_their_group(empty_shard: Shard) -> None:
    created = ensure_groups(empty_shard)

    assert created == 4
    assert empty_shard.lines() == {
        f"{stream} {fact}"
        for stream in ("wake", "high", "default", "low")
        for fact in ("stream", "group workers", "last 0-0")
    }


def test_existing_groups_keep_their_place(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me")
    shard.wait("high", "2-0")
    before = shard.lines()

    created = ensure_groups(shard)

    assert created == 0
    assert shard.changes_since(before) == NOTHING


def test_messages_sent_before_the_first_worker_are_not_skipped(empty_shard: Shard) -> None:
    empty_shard.wait("default", "1-0")

    ensure_groups(empty_shard)

    assert empty_shard.read_new("default") == ["1-0"]


def test_only_what_is_missing_is_created(shard: Shard) -> None:
    shard.client.delete(shard.lane("low"))
    before = shard.lines()

    created = ensure_groups(shard)

    assert created == 1
    assert shard.changes_since(before) == changes(
        came={"low stream", "low group workers", "low last 0-0"}
    )


def test_key_of_another_type_is_an_error_that_names_it(empty_shard: Shard) -> None:
    empty_shard.client.set(empty_shard.lane("high"), "a stranger's")

    with pytest.raises(CommandFailed, match="WRONGTYPE"):
        ensure_groups(empty_shard)


def test_groups_are_created_also_when_memory_is_full(fillable_shard: Shard) -> None:
    fillable_shard.client.delete(*fillable_shard.keys.lanes, fillable_shard.keys.wake)
    fillable_shard.fill_memory()

    assert ensure_groups(fillable_shard) == 4


def test_paused_queue_gets_its_lanes_and_nothing_to_block_on(empty_shard: Shard) -> None:
    empty_shard.client.set(empty_shard.keys.paused, 5)

    created = ensure_groups(empty_shard)

    assert created == -1
    streams = {line.partition(" ")[0] for line in empty_shard.lines()}
    assert streams == {"high", "default", "low", "paused"}
