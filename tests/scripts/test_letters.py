"""`expire_letters.lua` and `remove_letters.lua`."""

import json
from typing import Any

import pytest

from tests.scripts.shard import TTL_MS, Shard


def expire(shard: Shard, *, most: int = 1_000, limit: int = 100, after: bytes = b"") -> list[Any]:
    expired, excess, last = shard.scripts.expire_letters(
        dead=shard.keys.dead,
        dead_expiries=shard.keys.dead_expiries,
        ttl=TTL_MS,
        ttls={"brief": 2_000},
        most=most,
        limit=limit,
        after=after,
    )
    return [expired, excess, last]


def letters(shard: Shard) -> list[str]:
    found: Any = shard.client.xrange(shard.keys.dead)
    return [letter.decode() for letter, _ in found]


def expiries(shard: Shard) -> dict[str, int]:
    found: Any = shard.client.zrange(shard.keys.dead_expiries, 0, -1, withscores=True)
    return {letter.decode(): int(score) for letter, score in found}


def test_letters_whose_time_has_come_are_dropped_whatever_their_age(shard: Shard) -> None:
    now_ms = shard.now_ms()
    shard.bury("1-0", expires_ms=now_ms + 60_000)
    shard.bury("2-0", expires_ms=now_ms - 1)
    shard.bury("3-0", expires_ms=now_ms + 60_000)
    shard.bury("4-0", expires_ms=now_ms - 1)

    assert expire(shard) == [2, 0, b""]

    assert letters(shard) == ["1-0", "3-0"] == list(expiries(shard))


def test_limit_bounds_a_call_and_the_next_goes_on(shard: Shard) -> None:
    for number in range(1, 6):
        shard.bury(f"{number}-0", expires_ms=number)

    assert [expire(shard, limit=2)[0] for _ in range(4)] == [2, 2, 1, 0]

    assert letters(shard) == []
    assert not shard.client.exists(shard.keys.dead_expiries)


def test_letter_that_is_gone_already_counts_so_that_the_next_call_comes(shard: Shard) -> None:
    shard.client.zadd(shard.keys.dead_expiries, {"1-0": 1, "2-0": 2})

    assert expire(shard, limit=2) == [2, 0, b""]

    assert expiries(shard) == {}


def test_oldest_beyond_the_most_are_dropped(shard: Shard) -> None:
    for number in range(1, 6):
        shard.bury(f"{number}-0", expires_ms=2**50)

    assert [expire(shard, most=2, limit=2)[1] for _ in range(3)] == [2, 1, 0]

    assert letters(shard) == ["4-0", "5-0"] == list(expiries(shard))


@pytest.mark.parametrize(
    ("message", "ttl_ms"),
    [
        ({"actor_name": "a"}, TTL_MS),
        ({"actor_name": "brief"}, 2_000),
        ({"actor_name": "brief", "options": {"dead_message_ttl": 7_000}}, 7_000),
        ({"actor_name": "a", "options": {"dead_message_ttl": 7_000}}, 7_000),
        ({"actor_name": "brief", "options": {"dead_message_ttl": None}}, 2_000),
        ({"actor_name": "a", "options": {"dead_message_ttl": "7000"}}, TTL_MS),
        ({"actor_name": "a", "options": {"dead_message_ttl": -1}}, TTL_MS),
        ({"actor_name": ["a"], "options": []}, TTL_MS),
        ({"options": 5}, TTL_MS),
        ([1], TTL_MS),
        ("text", TTL_MS),
        (None, TTL_MS),
    ],
)
def test_time_of_a_letter_without_one_counts_from_its_death(
    shard: Shard, message: object, ttl_ms: int
) -> None:
    died_ms = shard.now_ms() - 1_000
    shard.bury(f"{died_ms}-0", expires_ms=None, body=json.dumps(message))

    expire(shard)

    assert expiries(shard) == {f"{died_ms}-0": died_ms + ttl_ms}


def test_body_that_is_no_json_has_the_time_of_the_broker(shard: Shard) -> None:
    died_ms = shard.now_ms()
    shard.bury(f"{died_ms}-0", expires_ms=None, body="[" * 2_000)
    shard.bury(f"{died_ms}-1", expires_ms=None, body="\x80 pickled")

    expire(shard)

    assert set(expiries(shard).values()) == {died_ms + TTL_MS}


def test_letters_without_a_time_get_one_page_by_page_and_others_keep_theirs(shard: Shard) -> None:
    now_ms = shard.now_ms()
    shard.bury(f"{now_ms}-1", expires_ms=now_ms + 1_000)
    for number in range(2, 6):
        shard.bury(f"{now_ms}-{number}", expires_ms=None)

    calls, after = 0, b""
    while calls == 0 or after:
        after = expire(shard, limit=2, after=after)[2]
        calls += 1

    assert calls <= 4
    assert expiries(shard) == {
        f"{now_ms}-1": now_ms + 1_000,
        **{f"{now_ms}-{number}": now_ms + TTL_MS for number in range(2, 6)},
    }


def test_removed_letters_leave_no_time_behind(shard: Shard) -> None:
    for number in range(1, 4):
        shard.bury(f"{number}-0", expires_ms=2**50)

    removed = shard.scripts.remove_letters(
        dead=shard.keys.dead,
        dead_expiries=shard.keys.dead_expiries,
        letters=["1-0", "3-0", "9-0"],
    )

    assert removed == 2
    assert letters(shard) == ["2-0"] == list(expiries(shard))
