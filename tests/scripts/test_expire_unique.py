from tests.scripts.shard import NOTHING, Shard


def expire(shard: Shard, limit: int = 100) -> int:
    return shard.scripts.expire_unique(
        unique=shard.keys.unique, unique_messages=shard.keys.unique_messages, limit=limit
    )


def test_what_has_ended_is_forgotten_and_nothing_else(shard: Shard) -> None:
    shard.reserve("old", "t1", "m1", ends_in_ms=-1)
    shard.reserve("k", "t2", "m2")

    expired = expire(shard)

    assert expired == 1
    assert shard.reserved() == {"k": "t2:m2"}
    assert shard.client.zrange(shard.keys.unique, 0, -1) == [b"k"]


def test_no_more_are_forgotten_than_the_limit(shard: Shard) -> None:
    for number in range(5):
        shard.reserve(f"old {number}", "t1", "m1", ends_in_ms=-1)

    assert [expire(shard, 2), expire(shard, 2), expire(shard, 2)] == [2, 2, 1]
    assert shard.reserved() == {}


def test_nothing_to_forget_changes_nothing(empty_shard: Shard) -> None:
    before = empty_shard.lines()

    assert expire(empty_shard) == 0
    assert empty_shard.changes_since(before) == NOTHING
