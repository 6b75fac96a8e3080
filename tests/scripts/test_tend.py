from collections.abc import Sequence
from typing import Any

import pytest

from dramatiq_streams.keys import GROUP, RELEASED
from tests.scripts.shard import KEPT, LANES, NOTHING, WAKE_UP, Shard, changes

LEASE_MS = 60_000
START = [b"0-0", b"0-0", b"0-0"]


def recover(
    shard: Shard,
    *,
    cursors: Sequence[str] = ("0-0", "0-0", "0-0"),
    limit: int = 100,
    max_deliveries: int = 5,
    latest: int = 2**53,
) -> list[Any]:
    """What was recovered, and the cursors."""
    tending = parameters(
        shard, cursors=cursors, limit=limit, max_deliveries=max_deliveries, latest=latest
    )
    return shard.scripts.tend(**tending)[:5]


def parameters(shard: Shard, *, host: str = "h", **options: Any) -> dict[str, Any]:
    return {
        "consumers": shard.keys.consumers,
        "connections": shard.keys.connections,
        "host": shard.keys.host(host),
        "wake": shard.keys.wake,
        "delayed": shard.keys.delayed,
        "dead": shard.keys.dead,
        "dead_expiries": shard.keys.dead_expiries,
        "unique": shard.keys.unique,
        "unique_messages": shard.keys.unique_messages,
        "lanes": shard.keys.lanes,
        "consumer": "me",
        "ids": "7",
        "identity": "",
        "host_ttl": 600_000,
        "late": 10_000,
        "late_limit": 50,
        "group": GROUP,
        "released": RELEASED,
        "lease": LEASE_MS,
        "latest": 2**53,
        "cursors": ("0-0", "0-0", "0-0"),
        "limit": 100,
        "max_deliveries": 5,
        "lane_names": LANES,
        "ttl": 86_400_000,
        "ttls": {},
        "most": 1_000,
        **options,
    }


@pytest.fixture(autouse=True)
def _alive(empty_shard: Shard) -> None:
    """The heartbeat that each call sends changes no line then."""
    empty_shard.client.zadd(empty_shard.keys.consumers, {"me": empty_shard.now_ms()})
    empty_shard.client.hset(empty_shard.keys.connections, "me", "7")


def test_expired_deliveries_are_free_and_stay_counted(shard: Shard) -> None:
    shard.deliver("high", "1-0", "gone", idle_ms=LEASE_MS)
    shard.deliver("low", "1-0", "gone", deliveries=4, idle_ms=2 * LEASE_MS)
    before = shard.lines()

    reply = recover(shard)

    assert reply == [2, 0, *START]
    assert shard.changes_since(before) == changes(
        gone={"high pending 1-0 gone 1", "low pending 1-0 gone 4"},
        came={"high pending 1-0 released 1", "low pending 1-0 released 4", WAKE_UP},
    )


def test_deliveries_whose_lease_runs_are_left_alone(shard: Shard) -> None:
    shard.deliver("high", "1-0", "alive", idle_ms=LEASE_MS // 2)
    shard.deliver("high", "2-0", "alive", deliveries=9)
    shard.wait("high", "3-0")
    before = shard.lines()

    reply = recover(shard)

    assert reply == [0, 0, *START]
    assert shard.changes_since(before) == NOTHING


@pytest.mark.parametrize(("due_in_ms", "is_woken"), [(-10, True), (3_600_000, False)])
def test_somebody_is_woken_for_what_is_due_and_waits_all_the_same(
    shard: Shard, *, due_in_ms: int, is_woken: bool
) -> None:
    shard.delay("a", "default:body", shard.now_ms() + due_in_ms)
    before = shard.lines()

    recover(shard)

    assert shard.changes_since(before) == changes(came={WAKE_UP} if is_woken else set())


@pytest.mark.parametrize("deliveries", [5, 6])
def test_what_was_delivered_too_often_becomes_a_dead_letter(shard: Shard, deliveries: int) -> None:
    shard.deliver("default", "1-0", "gone", deliveries=deliveries, idle_ms=LEASE_MS)
    before = shard.lines()

    reply = recover(shard)

    sentence = f"Delivered {deliveries} times and never settled."
    where = f"lane=default entry=1-0 deliveries={deliveries}"
    assert reply == [0, 1, *START]
    assert shard.changes_since(before) == changes(
        gone={"default entry 1-0 m=default 1-0", f"default pending 1-0 gone {deliveries}"},
        came={
            *KEPT,
            f"dead entry new m=default 1-0 reason=max_deliveries error={sentence} {where}",
        },
    )


def test_a_single_delivery_is_enough_when_only_one_is_allowed(shard: Shard) -> None:
    shard.deliver("high", "1-0", "gone", idle_ms=LEASE_MS)
    shard.deliver("high", "2-0", RELEASED, deliveries=0, idle_ms=LEASE_MS)

    reply = recover(shard, max_deliveries=1)

    assert reply[:2] == [0, 1]
    assert "high pending 2-0 released 0" in shard.lines()
    assert "high entry 1-0 m=high 1-0" not in shard.lines()


def test_entries_deleted_from_their_stream_are_cleared_and_not_counted(shard: Shard) -> None:
    shard.deliver("high", "1-0", "gone", idle_ms=LEASE_MS)
    shard.deliver("high", "2-0", "gone", deliveries=9, idle_ms=LEASE_MS)
    shard.delete("high", "1-0")
    shard.delete("high", "2-0")
    before = shard.lines()

    reply = recover(shard)

    assert reply == [0, 0, *START]
    assert shard.changes_since(before) == changes(
        gone={"high pending 1-0 gone 1", "high pending 2-0 gone 9"}
    )


def test_limit_bounds_a_call_and_the_cursor_leads_on(shard: Shard) -> None:
    for number in range(1, 6):
        shard.deliver("high", f"{number}-0", "gone", idle_ms=LEASE_MS)
    shard.deliver("low", "1-0", "gone", idle_ms=LEASE_MS)

    first = recover(shard, limit=2)
    second = recover(shard, limit=2, cursors=[cursor.decode() for cursor in first[2:]])
    third = recover(shard, limit=2, cursors=[cursor.decode() for cursor in second[2:]])

    assert first == [3, 0, b"3-0", b"0-0", b"0-0"]
    assert second[0] == 2
    assert second[2] in (b"5-0", b"0-0")
    assert third[2] == b"0-0"
    owned = {line for line in shard.lines() if line.startswith("high pending")}
    assert owned == {f"high pending {number}-0 released 1" for number in range(1, 6)}


def test_cursor_beyond_the_end_begins_anew(shard: Shard) -> None:
    shard.deliver("high", "1-0", "gone", idle_ms=LEASE_MS)

    reply = recover(shard, cursors=("9-0", "0-0", "0-0"))

    assert reply == [0, 0, *START]
    assert recover(shard)[0] == 1


def test_missing_lane_does_not_hinder_the_others(shard: Shard) -> None:
    shard.client.delete(shard.lane("high"))
    shard.deliver("low", "1-0", "gone", idle_ms=LEASE_MS)
    before = shard.lines()

    reply = recover(shard, cursors=("7-0", "0-0", "0-0"))

    assert reply == [1, 0, *START]
    assert shard.changes_since(before) == changes(
        gone={"low pending 1-0 gone 1"}, came={"low pending 1-0 released 1", WAKE_UP}
    )


def test_lanes_that_do_not_exist_are_not_created(empty_shard: Shard) -> None:
    reply = recover(empty_shard)

    assert reply == [0, 0, *START]
    assert not empty_shard.client.exists(*empty_shard.keys.lanes, empty_shard.keys.wake)


def test_what_is_free_already_is_not_counted_again_and_wakes_nobody(shard: Shard) -> None:
    shard.deliver("high", "1-0", RELEASED, idle_ms=LEASE_MS)
    shard.deliver("high", "2-0", "gone", idle_ms=LEASE_MS)
    assert recover(shard)[0] == 1
    shard.redeliver("high", "1-0", RELEASED, deliveries=1, idle_ms=LEASE_MS)
    before = shard.lines()

    reply = recover(shard)

    assert reply == [0, 0, *START]
    assert shard.changes_since(before) == NOTHING


def test_nothing_is_recovered_while_the_clock_shows_too_much(shard: Shard) -> None:
    shard.deliver("high", "1-0", "alive", idle_ms=LEASE_MS)
    shard.deliver("low", "1-0", "alive", deliveries=9, idle_ms=LEASE_MS)
    before = shard.lines()

    reply = recover(shard, latest=shard.now_ms() - 1_000, cursors=("0-0", "7-0", "0-0"))

    assert reply == [0, 0, b"0-0", b"7-0", b"0-0"]
    assert shard.changes_since(before) == NOTHING
    assert recover(shard, latest=shard.now_ms() + 60_000)[:2] == [1, 1]


def test_heartbeat_is_that_of_beat(shard: Shard) -> None:
    shard.client.zadd(shard.keys.consumers, {"late": 1_000})
    now_ms = shard.now_ms()

    reply = shard.scripts.tend(**parameters(shard, identity="10 20", host="h"))

    time_ms, *pulse = reply[5:]
    assert abs(time_ms - now_ms) < 10_000
    assert pulse == [1, b"me", b"10 20", b"late", b"1000", b""]


def test_body_is_buried_byte_for_byte(shard: Shard) -> None:
    body = bytes(range(256))
    shard.client.xadd(shard.lane("high"), {"m": body}, id="1-0")
    shard.redeliver("high", "1-0", "gone", deliveries=5, idle_ms=LEASE_MS)

    recover(shard)

    [letter] = shard.stored(shard.keys.dead)
    assert letter[b"m"] == body


def test_recovery_goes_on_when_memory_is_full(fillable_shard: Shard) -> None:
    fillable_shard.deliver("high", "1-0", "gone", idle_ms=LEASE_MS)
    fillable_shard.deliver("high", "2-0", "gone", deliveries=5, idle_ms=LEASE_MS)
    fillable_shard.fill_memory()

    reply = recover(fillable_shard)

    # A script that has written already is not refused any more.
    assert reply == [1, 1, *START]
    assert "high pending 1-0 released 1" in fillable_shard.lines()
    assert "high entry 2-0 m=high 2-0" not in fillable_shard.lines()
