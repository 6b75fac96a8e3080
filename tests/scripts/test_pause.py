import pytest

from dramatiq_streams.errors import GroupMissing
from dramatiq_streams.keys import GROUP
from tests.scripts.shard import NOTHING, Shard, changes


def pause(shard: Shard) -> int:
    return shard.scripts.pause(paused=shard.keys.paused, wake=shard.keys.wake, group=GROUP)


def test_pause_is_noted_and_takes_away_what_blocking_reads_need(shard: Shard) -> None:
    before, started_ms = shard.lines(), shard.now_ms()

    did = pause(shard)

    assert did == 1
    assert started_ms <= int(shard.client.get(shard.keys.paused) or 0) <= shard.now_ms()
    assert shard.changes_since(before) == changes(
        gone={"wake group workers", "wake last 0-0"}, came={"paused string"}
    )


def test_second_pause_keeps_the_time_of_the_first(shard: Shard) -> None:
    shard.client.set(shard.keys.paused, "5")

    did = pause(shard)

    assert did == 0
    assert shard.client.get(shard.keys.paused) == b"5"


def test_second_pause_takes_away_a_group_that_somebody_made_meanwhile(shard: Shard) -> None:
    shard.client.set(shard.keys.paused, "5")

    pause(shard)

    with pytest.raises(GroupMissing):
        shard.read_new("wake")


def test_queue_that_was_never_used_can_be_paused(empty_shard: Shard) -> None:
    did = pause(empty_shard)

    assert did == 1
    assert empty_shard.lines() == {"paused string"}


def test_messages_and_deliveries_stay(shard: Shard) -> None:
    shard.wait("low", "1-0")
    shard.deliver("high", "1-0", "me")
    shard.delay("d1", "low:late", 10**13)
    before = shard.lines()

    pause(shard)

    gone = {line.partition(" ")[0] for line in before - shard.lines()}
    assert gone == {"wake"}
    assert shard.changes_since(shard.lines()) == NOTHING
