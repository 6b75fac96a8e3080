from dramatiq_streams.uniqueness import REMEMBERED_MS
from tests.scripts.shard import NOTHING, Shard


def start(shard: Shard, entry: str = "1-0") -> int:
    return shard.scripts.start_unique(
        lane=shard.lane("low"),
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        entry=entry,
    )


def test_key_is_free_and_its_delivery_is_remembered_for_a_while(shard: Shard) -> None:
    shard.deliver("low", "1-0", "me", reservation=shard.reserve("k", "t1", "m1"))

    freed = start(shard)

    assert freed == 1
    assert shard.reserved() == {"k": "t1-"}
    ends_ms = shard.client.zscore(shard.keys.unique, "k") or 0
    assert REMEMBERED_MS - 5_000 < ends_ms - shard.now_ms() <= REMEMBERED_MS


def test_doing_it_twice_changes_nothing(shard: Shard) -> None:
    shard.deliver("low", "1-0", "me", reservation=shard.reserve("k", "t1", "m1"))
    start(shard)
    ended_ms = shard.client.zscore(shard.keys.unique, "k")

    freed = start(shard)

    assert freed == 0
    assert shard.client.zscore(shard.keys.unique, "k") == ended_ms


def test_key_that_another_message_has_by_now_stays_its_own(shard: Shard) -> None:
    shard.deliver("low", "1-0", "me", reservation="t1:k")
    shard.reserve("k", "t2", "m2")
    before = shard.lines()

    freed = start(shard)

    assert freed == 0
    assert shard.changes_since(before) == NOTHING


def test_entry_without_a_key_and_no_entry_change_nothing(shard: Shard) -> None:
    shard.deliver("low", "1-0", "me")
    before = shard.lines()

    assert start(shard) == 0
    assert start(shard, "2-0") == 0
    assert shard.changes_since(before) == NOTHING


def test_key_is_freed_when_memory_is_full(fillable_shard: Shard) -> None:
    reservation = fillable_shard.reserve("k", "t1", "m1")
    fillable_shard.deliver("low", "1-0", "me", reservation=reservation)
    fillable_shard.fill_memory()

    freed = start(fillable_shard)

    assert freed == 1
    assert fillable_shard.reserved() == {"k": "t1-"}
