"""Last deliveries: `read` does not count them, `begin` does."""

import pytest

from dramatiq_streams.keys import GROUP
from tests.scripts.reading import read
from tests.scripts.shard import NOTHING, Shard, changes


def begin(shard: Shard, entry: str, deliveries: int) -> int:
    return shard.scripts.begin(
        lane=shard.lane("high"), group=GROUP, consumer="me", entry=entry, deliveries=deliveries
    )


def test_last_delivery_is_counted_when_it_begins(shard: Shard) -> None:
    shard.deliver("high", "1-0", "me", deliveries=4, idle_ms=50_000)
    before = shard.lines()

    count = begin(shard, "1-0", 4)

    assert count == 1
    assert shard.changes_since(before) == changes(
        gone={"high pending 1-0 me 4"}, came={"high pending 1-0 me 5"}
    )
    assert shard.idle_ms("high", "1-0") < 10_000


@pytest.mark.parametrize(("holder", "deliveries"), [("other", 4), ("me", 5), ("released", 4)])
def test_delivery_that_is_no_longer_held_does_not_begin(
    shard: Shard, holder: str, deliveries: int
) -> None:
    shard.deliver("high", "1-0", holder, deliveries=deliveries)
    before = shard.lines()

    count = begin(shard, "1-0", 4)

    assert count == 0
    assert shard.changes_since(before) == NOTHING


def test_nothing_begins_in_a_queue_that_was_flushed(empty_shard: Shard) -> None:
    assert begin(empty_shard, "1-0", 4) == 0
    assert empty_shard.lines() == frozenset()


def test_last_delivery_begins_when_memory_is_full(fillable_shard: Shard) -> None:
    fillable_shard.deliver("high", "1-0", "me", deliveries=4)
    fillable_shard.fill_memory()

    count = begin(fillable_shard, "1-0", 4)

    assert count == 1
    assert "high pending 1-0 me 5" in fillable_shard.lines()


@pytest.mark.parametrize(
    ("deliveries", "told", "counted"), [(0, 1, 1), (3, 4, 4), (4, -4, 4), (9, -9, 9)]
)
def test_only_what_would_be_the_last_delivery_is_not_counted_when_read(
    shard: Shard, deliveries: int, told: int, counted: int
) -> None:
    shard.release("high", "1-0", deliveries=deliveries)

    reply = read(shard, max_deliveries=5)

    assert reply.entries == [(1, "1-0", told, "high 1-0")]
    assert f"high pending 1-0 me {counted}" in shard.lines()


def test_with_a_single_delivery_allowed_each_is_counted_when_read(shard: Shard) -> None:
    shard.release("high", "1-0", deliveries=0)
    shard.wait("high", "2-0")

    reply = read(shard, max_deliveries=1)

    assert [(entry, count) for _, entry, count, _ in reply.entries] == [("1-0", 1), ("2-0", 1)]
