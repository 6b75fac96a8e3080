import pytest

from tests.scripts.shard import NOTHING, Shard


def free(shard: Shard, key: str, message_id: str) -> int:
    return shard.scripts.free_unique(
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        unique_key=key,
        message_id=message_id,
    )


def test_key_is_taken_from_its_message(shard: Shard) -> None:
    before = shard.lines()
    shard.reserve("k", "t1", "m:1-2")

    freed = free(shard, "k", "m:1-2")

    assert freed == 1
    assert shard.changes_since(before) == NOTHING


@pytest.mark.parametrize(("key", "message_id"), [("k", "m2"), ("other", "m1"), ("k", "")])
def test_key_that_the_message_does_not_have_stays(shard: Shard, key: str, message_id: str) -> None:
    shard.reserve("k", "t1", "m1")
    before = shard.lines()

    freed = free(shard, key, message_id)

    assert freed == 0
    assert shard.changes_since(before) == NOTHING
