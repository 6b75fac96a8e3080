"""What `read` does with delayed messages, and when memory is full."""

import pytest

from tests.scripts.reading import read
from tests.scripts.shard import NOTHING, Shard, changes

FAR_MS = 10**13


def test_due_messages_are_forwarded_earliest_first_and_read_at_once(shard: Shard) -> None:
    shard.delay("d1", "high:second", 2)
    shard.delay("d2", "high:first", 1)
    shard.delay("d3", "low:third", 3)
    before = shard.lines()

    reply = read(shard)

    assert [(lane, deliveries, body) for lane, _, deliveries, body in reply.entries] == [
        (1, 1, "first"),
        (1, 1, "second"),
        (3, 1, "third"),
    ]
    assert (reply.forwarded, reply.next_eta) == (3, -1)
    assert shard.changes_since(before).gone >= {
        "delayed zset",
        "delayed d1 2",
        "delayed:messages hash",
        "delayed:messages d3 low:third",
    }


def test_messages_that_are_not_due_stay_and_the_next_eta_is_told(shard: Shard) -> None:
    shard.delay("d1", "high:later", FAR_MS + 1)
    shard.delay("d2", "high:late", FAR_MS)
    before = shard.lines()

    reply = read(shard)

    assert (reply.forwarded, reply.next_eta, reply.entries) == (0, FAR_MS, [])
    assert shard.changes_since(before) == NOTHING


def test_message_is_due_at_its_eta(shard: Shard) -> None:
    shard.delay("d1", "high:now", shard.now_ms())

    reply = read(shard)

    assert [body for *_, body in reply.entries] == ["now"]


def test_limit_bounds_what_is_forwarded_and_the_rest_is_due(shard: Shard) -> None:
    for number in range(1, 6):
        shard.delay(f"d{number}", f"high:{number}", number)
    before = shard.lines()

    reply = read(shard, budget=0, limit=2)

    assert (reply.forwarded, reply.next_eta) == (2, 3)
    assert shard.changes_since(before) == changes(
        gone={
            *(f"delayed d{number} {number}" for number in (1, 2)),
            *(f"delayed:messages d{number} high:{number}" for number in (1, 2)),
        },
        came={"high entry new m=1", "high entry new m=2"},
    )


def test_lane_that_no_longer_exists_is_replaced_by_the_fallback(shard: Shard) -> None:
    shard.delay("d1", "removed:body", 1)

    reply = read(shard)

    assert [(lane, body) for lane, _, _, body in reply.entries] == [(2, "body")]


@pytest.mark.parametrize("body", ["a:b", ":", "", "high:x"])
def test_only_the_first_colon_separates_the_lane(shard: Shard, body: str) -> None:
    shard.delay("d1", f"low:{body}", 1)

    reply = read(shard)

    assert [(lane, found) for lane, _, _, found in reply.entries] == [(3, body)]


def test_body_is_forwarded_byte_for_byte(shard: Shard) -> None:
    body = bytes(range(256))
    shard.delay("d1", b"high:" + body, 1)

    read(shard)

    assert shard.stored(shard.lane("high")) == [{b"m": body}]


def test_what_a_stranger_wrote_without_a_lane_does_not_block_the_queue(shard: Shard) -> None:
    shard.delay("d1", "no lane at all", 1)
    shard.delay("d2", "high:next", 2)

    reply = read(shard)

    assert [(lane, body) for lane, _, _, body in reply.entries] == [
        (1, "next"),
        (2, "no lane at all"),
    ]


def test_eta_without_a_message_is_dropped(shard: Shard) -> None:
    shard.client.zadd(shard.keys.delayed, {"d1": 1})
    before = shard.lines()

    reply = read(shard)

    assert reply.entries == []
    assert shard.changes_since(before) == changes(gone={"delayed zset", "delayed d1 1"})


def test_lane_that_cannot_be_written_keeps_its_messages_delayed(shard: Shard) -> None:
    shard.client.delete(shard.lane("low"))
    shard.client.set(shard.lane("low"), "a stranger's")
    shard.delay("d1", "low:body", 1)
    before = shard.lines()

    reply = read(shard, budget=0)

    assert (reply.forwarded, reply.next_eta) == (0, 1)
    assert shard.changes_since(before) == NOTHING


def test_due_messages_stay_and_reads_go_on_when_memory_is_full(fillable_shard: Shard) -> None:
    fillable_shard.delay("d1", "high:due", 1)
    fillable_shard.wait("low", "1-0")
    before = fillable_shard.lines()
    fillable_shard.fill_memory()

    reply = read(fillable_shard)

    assert (reply.forwarded, reply.next_eta) == (0, 1)
    assert reply.entries == [(3, "1-0", 1, "low 1-0")]
    assert fillable_shard.changes_since(before) == changes(
        gone={"low last 0-0"}, came={"low last 1-0", "low pending 1-0 me 1"}
    )


def test_acks_are_settled_when_memory_is_full_and_make_room_for_what_is_due(
    fillable_shard: Shard,
) -> None:
    fillable_shard.delay("d1", "high:due", 1)
    fillable_shard.deliver("low", "1-0", "me")
    fillable_shard.fill_memory()

    reply = read(fillable_shard, acks=[(3, "1-0", 1)])

    # A script that has written already is not refused any more.
    assert reply.refused == []
    assert [body for *_, body in reply.entries] == ["due"]
    assert "low entry 1-0 m=low 1-0" not in fillable_shard.lines()


def test_released_entries_are_read_when_memory_is_full_and_nobody_can_be_woken(
    fillable_shard: Shard,
) -> None:
    fillable_shard.release("high", "1-0")
    fillable_shard.release("high", "2-0")
    fillable_shard.fill_memory()

    reply = read(fillable_shard, budget=1)

    assert reply.ids == [(1, "1-0")]
