import pytest

from dramatiq_streams.errors import ServerOutOfMemory
from dramatiq_streams.migration.scripts import MigrationScripts
from tests.scripts.shard import NOTHING, WAKE_UP, Shard, changes

TTL_MS = 3_600_000
ETA_MS = 4_000_000_000_000


def adopt(
    shard: Shard,
    row: int,
    *,
    previous: int = 0,
    source: str = "run",
    body: bytes = b"body",
    eta: int = -1,
    reason: str = "",
) -> int:
    return MigrationScripts(shard.scripts._runs).adopt(
        wake=shard.keys.wake,
        delayed=shard.keys.delayed,
        delayed_messages=shard.keys.delayed_messages,
        lane=shard.lane("low"),
        dead=shard.keys.dead,
        spools=shard.keys.spools,
        source=source,
        row=row,
        previous=previous,
        lane_name="low",
        message=body,
        eta=eta,
        reason=reason,
        error="E" if reason else "",
        ttl=TTL_MS,
    )


def test_message_goes_to_its_lane_and_its_row_is_noted(shard: Shard) -> None:
    before = shard.lines()

    taken = adopt(shard, 7)

    assert taken == 1
    assert shard.changes_since(before) == changes(
        came={"low entry new m=body", "spools hash", "spools run 7"}
    )


def test_delayed_message_keeps_its_eta(shard: Shard) -> None:
    before = shard.lines()

    adopt(shard, 7, eta=ETA_MS)

    assert shard.changes_since(before) == changes(
        came={
            "delayed zset",
            f"delayed run:7 {ETA_MS}",
            "delayed:messages hash",
            "delayed:messages run:7 low:body",
            "spools hash",
            "spools run 7",
            WAKE_UP,
        }
    )


def test_message_with_a_reason_is_a_dead_letter_and_no_other_expires(shard: Shard) -> None:
    shard.client.xadd(shard.keys.dead, {"m": "old"}, id="1-0")
    before = shard.lines()

    adopt(shard, 7, reason="migrated")

    letter = "m=body reason=migrated error=E lane=low entry= deliveries=0"
    assert shard.changes_since(before) == changes(
        came={f"dead entry new {letter}", "spools hash", "spools run 7"}
    )


KINDS = [{}, {"eta": ETA_MS}, {"reason": "migrated"}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("row", [7, 6, 1])
def test_row_that_came_before_changes_nothing(shard: Shard, row: int, kind: dict) -> None:
    adopt(shard, 7)
    before = shard.lines()

    taken = adopt(shard, row, **kind)

    assert taken == 0
    assert shard.changes_since(before) == NOTHING


def test_row_whose_predecessor_is_missing_changes_nothing(shard: Shard) -> None:
    adopt(shard, 7)
    before = shard.lines()

    taken = adopt(shard, 9, previous=8)

    assert taken == -1
    assert shard.changes_since(before) == NOTHING


def test_runs_do_not_hinder_each_other(shard: Shard) -> None:
    adopt(shard, 7)

    assert adopt(shard, 3, source="other") == 1


def test_run_is_forgotten_after_a_while(shard: Shard) -> None:
    adopt(shard, 7)

    assert TTL_MS - 60_000 < shard.client.pttl(shard.keys.spools) <= TTL_MS


def test_body_is_kept_byte_for_byte(shard: Shard) -> None:
    body = bytes(range(256)) + b":%s\r\n"

    adopt(shard, 7, body=body)

    assert shard.stored(shard.lane("low")) == [{b"m": body}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_full_memory_refuses_stores_nothing_and_notes_nothing(
    fillable_shard: Shard, kind: dict
) -> None:
    before = fillable_shard.lines()
    fillable_shard.fill_memory()

    with pytest.raises(ServerOutOfMemory, match="stored nothing"):
        adopt(fillable_shard, 7, **kind)

    assert fillable_shard.changes_since(before) == NOTHING
