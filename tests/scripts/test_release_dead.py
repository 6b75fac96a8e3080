import json
from typing import Any

import pytest

from dramatiq_streams.keys import GROUP, RELEASED
from tests.scripts.shard import KEPT, LANES, NOTHING, TTL_MS, WAKE_UP, Shard, changes


def release_dead(
    shard: Shard,
    *,
    heartbeat: str = "",
    limit: int = 500,
    max_deliveries: int = 5,
    ttls: dict[str, int] | None = None,
    most: int = 1_000,
) -> list[int]:
    return shard.scripts.release_dead(
        consumers=shard.keys.consumers,
        wake=shard.keys.wake,
        dead=shard.keys.dead,
        dead_expiries=shard.keys.dead_expiries,
        unique=shard.keys.unique,
        unique_messages=shard.keys.unique_messages,
        lanes=shard.keys.lanes,
        group=GROUP,
        consumer="gone",
        released=RELEASED,
        heartbeat=heartbeat,
        limit=limit,
        max_deliveries=max_deliveries,
        lane_names=LANES,
        ttl=TTL_MS,
        ttls=ttls or {},
        most=most,
    )


def test_all_that_the_dead_one_held_is_free_and_stays_counted(shard: Shard) -> None:
    shard.deliver("high", "1-0", "gone")
    shard.deliver("low", "1-0", "gone", deliveries=4)
    before = shard.lines()

    reply = release_dead(shard)

    assert reply == [2, 0, 2]
    assert shard.changes_since(before) == changes(
        gone={"high pending 1-0 gone 1", "low pending 1-0 gone 4"},
        came={"high pending 1-0 released 1", "low pending 1-0 released 4", WAKE_UP},
    )


def test_what_others_hold_is_left_alone(shard: Shard) -> None:
    shard.deliver("high", "1-0", "alive", deliveries=9, idle_ms=3_600_000)
    shard.release("high", "2-0")
    shard.wait("high", "3-0")
    before = shard.lines()

    reply = release_dead(shard)

    assert reply == [0, 0, 0]
    assert shard.changes_since(before) == NOTHING


def test_consumer_that_has_sent_a_newer_heartbeat_keeps_everything(shard: Shard) -> None:
    shard.deliver("high", "1-0", "gone")
    shard.client.zadd(shard.keys.consumers, {"gone": 5_000})
    before = shard.lines()

    reply = release_dead(shard, heartbeat="4999")

    assert reply == [0, 0, 0]
    assert shard.changes_since(before) == NOTHING


@pytest.mark.parametrize("heartbeat", ["", "5000"])
def test_judged_by_its_last_heartbeat_or_provably_gone_it_keeps_nothing(
    shard: Shard, heartbeat: str
) -> None:
    shard.deliver("high", "1-0", "gone")
    shard.client.zadd(shard.keys.consumers, {"gone": 5_000})

    assert release_dead(shard, heartbeat=heartbeat) == [1, 0, 1]


def test_consumer_whose_heartbeat_is_gone_keeps_nothing(shard: Shard) -> None:
    shard.deliver("high", "1-0", "gone")

    assert release_dead(shard, heartbeat="5000") == [1, 0, 1]


def test_what_was_delivered_too_often_becomes_a_dead_letter(shard: Shard) -> None:
    shard.deliver("default", "1-0", "gone", deliveries=5)
    before = shard.lines()

    reply = release_dead(shard)

    told = "reason=max_deliveries error=Delivered 5 times and never settled."
    where = "lane=default entry=1-0 deliveries=5"
    assert reply == [0, 1, 1]
    assert shard.changes_since(before) == changes(
        gone={"default entry 1-0 m=default 1-0", "default pending 1-0 gone 5"},
        came={*KEPT, f"dead entry new m=default 1-0 {told} {where}"},
    )


@pytest.mark.parametrize(
    ("options", "seconds"),
    [({}, 90), ({"dead_message_ttl": 70_000}, 70), ({"dead_message_ttl": None}, 90)],
)
def test_dead_letter_is_kept_as_its_message_or_its_actor_says(
    shard: Shard, options: dict[str, Any], seconds: int
) -> None:
    body = json.dumps({"actor_name": "own", "options": options})
    shard.client.xadd(shard.lane("high"), {"m": body}, id="1-0")
    shard.redeliver("high", "1-0", "gone", deliveries=5)

    assert release_dead(shard, ttls={"own": 90_000}) == [0, 1, 1]

    assert f"dead:expiries new in {seconds} s" in shard.lines()


def test_only_the_newest_dead_letters_are_kept(shard: Shard) -> None:
    for number in range(1, 4):
        shard.deliver("high", f"{number}-0", "gone", deliveries=5)

    assert release_dead(shard, most=2) == [0, 3, 3]

    letters = [line for line in shard.lines() if line.startswith("dead entry")]
    assert sorted("entry=1-0" in line for line in letters) == [False, False]


def test_entries_deleted_from_their_stream_are_cleared_and_not_counted(shard: Shard) -> None:
    shard.deliver("high", "1-0", "gone")
    shard.delete("high", "1-0")

    reply = release_dead(shard)

    assert reply == [0, 0, 1]
    assert not {line for line in shard.lines() if "pending" in line}


def test_limit_bounds_a_call_and_the_next_goes_on(shard: Shard) -> None:
    for number in range(1, 6):
        shard.deliver("high", f"{number}-0", "gone")

    replies = [release_dead(shard, limit=2) for _ in range(3)]

    assert replies == [[2, 0, 2], [2, 0, 2], [1, 0, 1]]
    owned = {line for line in shard.lines() if line.startswith("high pending")}
    assert owned == {f"high pending {number}-0 released 1" for number in range(1, 6)}


def test_missing_lane_does_not_hinder_the_others(shard: Shard) -> None:
    shard.client.delete(shard.lane("high"))
    shard.deliver("low", "1-0", "gone")

    assert release_dead(shard) == [1, 0, 1]
    assert "low pending 1-0 released 1" in shard.lines()


def test_queue_that_does_not_exist_is_not_created(empty_shard: Shard) -> None:
    assert release_dead(empty_shard) == [0, 0, 0]
    assert empty_shard.lines() == frozenset()


def test_dead_consumers_are_released_when_memory_is_full(fillable_shard: Shard) -> None:
    fillable_shard.deliver("high", "1-0", "gone")
    fillable_shard.deliver("high", "2-0", "gone", deliveries=5)
    fillable_shard.fill_memory()

    # A script that has written already is not refused any more.
    assert release_dead(fillable_shard) == [1, 1, 2]
    assert "high entry 2-0 m=high 2-0" not in fillable_shard.lines()
