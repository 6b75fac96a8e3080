from typing import Any

from tests.scripts.shard import Shard, changes

HOST_TTL_MS = 600_000


def beat(
    shard: Shard,
    *,
    consumer: str = "me",
    host: str = "h",
    ids: str = "7 8",
    identity: str = "10 20",
    late: int = 10_000,
    limit: int = 50,
) -> list[Any]:
    return shard.scripts.beat(
        consumers=shard.keys.consumers,
        connections=shard.keys.connections,
        host=shard.keys.host(host),
        consumer=consumer,
        ids=ids,
        identity=identity,
        host_ttl=HOST_TTL_MS,
        late=late,
        limit=limit,
    )


def test_first_heartbeat_notes_the_consumer_its_connections_and_its_process(shard: Shard) -> None:
    before = shard.lines()
    now_ms = shard.now_ms()

    time_ms, *reply = beat(shard)

    assert abs(time_ms - now_ms) < 10_000
    assert reply == [1, b"me", b"10 20"]
    assert shard.changes_since(before) == changes(
        came={
            *{"consumers zset", "consumers me now"},
            *{"connections hash", "connections me 7 8"},
            *{"host:h hash", "host:h me 10 20"},
        }
    )
    assert HOST_TTL_MS - 10_000 < shard.client.pttl(shard.keys.host("h")) <= HOST_TTL_MS


def test_heartbeat_replaces_the_last_one_and_leaves_others_alone(shard: Shard) -> None:
    beat(shard)
    beat(shard, consumer="other", ids="9", identity="11 21")
    shard.client.zadd(shard.keys.consumers, {"me": 1_000})
    before = shard.lines()

    beat(shard, ids="12")

    assert shard.changes_since(before) == changes(
        gone={"consumers me 1000", "connections me 7 8"},
        came={"consumers me now", "connections me 12"},
    )


def test_process_that_others_cannot_check_is_on_no_host_and_sees_none(shard: Shard) -> None:
    beat(shard, consumer="other")
    before = shard.lines()

    reply = beat(shard, identity="")

    assert reply[1:] == [0]
    assert shard.changes_since(before) == changes(came={"consumers me now", "connections me 7 8"})


def test_neighbours_are_those_of_the_same_host(shard: Shard) -> None:
    beat(shard, consumer="near", identity="1 1")
    beat(shard, consumer="far", identity="2 2", host="elsewhere")

    _, count, *pairs = beat(shard)

    assert count == 2
    assert set(zip(pairs[::2], pairs[1::2], strict=True)) == {
        (b"near", b"1 1"),
        (b"me", b"10 20"),
    }


def test_late_consumers_are_told_with_their_connections_the_latest_first(shard: Shard) -> None:
    now_ms = shard.now_ms()
    heartbeats = {"a": now_ms - 30_000, "b": now_ms - 50_000, "alive": now_ms, "c": 1}
    shard.client.zadd(shard.keys.consumers, heartbeats)
    shard.client.hset(shard.keys.connections, mapping={"b": "3 4", "alive": "5"})

    _, _, _, _, *late = beat(shard, limit=2)

    assert late == [b"c", b"1", b"", b"b", b"%d" % heartbeats["b"], b"3 4"]


def test_host_with_thousands_of_consumers_is_told_as_a_whole(shard: Shard) -> None:
    shard.client.hset(shard.keys.host("h"), mapping={f"c{n}": "1 1" for n in range(9_000)})

    reply = beat(shard)

    assert reply[1] == 9_001
    assert len(reply) == 2 + 2 * 9_001


def test_living_consumer_is_noted_when_memory_is_full(fillable_shard: Shard) -> None:
    beat(fillable_shard, ids="1")
    fillable_shard.client.zadd(fillable_shard.keys.consumers, {"me": 1})
    fillable_shard.fill_memory()

    reply = beat(fillable_shard, ids="2")

    # Otherwise it would be late, and have none of its connections, while it works.
    assert reply[1:] == [1, b"me", b"10 20"]
    assert {"consumers me now", "connections me 2"} <= fillable_shard.lines()
