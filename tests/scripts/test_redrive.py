from typing import Any

import pytest

from dramatiq_streams.errors import ServerOutOfMemory
from tests.scripts.shard import NOTHING, Shard, changes


def redrive(shard: Shard, letter: str, message: bytes = b"", *, token: str = "t2") -> list[Any]:
    return shard.scripts.redrive(
        dead=shard.keys.dead,
        dead_expiries=shard.keys.dead_expiries,
        lane=shard.lane("low"),
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        letter=letter,
        message=message,
        token=token,
        message_id="m1",
        unique_for=5_000,
    )


def bury(shard: Shard, letter: str) -> None:
    shard.client.xadd(shard.keys.dead, {"m": "dead", "reason": "failed"}, id=letter)


def test_letter_goes_as_its_message_comes(shard: Shard) -> None:
    bury(shard, "1-0")
    bury(shard, "2-0")
    before = shard.lines()

    done = redrive(shard, "1-0", b"as new")

    assert done == [1, b""]
    assert shard.changes_since(before) == changes(
        gone={"dead entry 1-0 m=dead reason=failed"}, came={"low entry new m=as new"}
    )


def test_body_is_sent_as_it_was_kept_when_no_other_is_given(shard: Shard) -> None:
    bury(shard, "1-0")

    redrive(shard, "1-0")

    assert shard.stored(shard.lane("low")) == [{b"m": b"dead"}]


def test_repeating_it_sends_nothing_twice(shard: Shard) -> None:
    bury(shard, "1-0")
    redrive(shard, "1-0")
    before = shard.lines()

    done = redrive(shard, "1-0")

    assert done == [0, b""]
    assert shard.changes_since(before) == NOTHING


def test_letter_stays_when_the_server_can_store_no_message(fillable_shard: Shard) -> None:
    bury(fillable_shard, "1-0")
    before = fillable_shard.lines()
    fillable_shard.fill_memory()

    with pytest.raises(ServerOutOfMemory):
        redrive(fillable_shard, "1-0")

    assert fillable_shard.changes_since(before) == NOTHING
