import redis

from tests.support.keyspace import snapshot


def test_snapshot_shows_every_type_with_all_it_holds(
    redis_client: redis.Redis, namespace: str
) -> None:
    prefix = f"{{{namespace}:q:0}}"
    redis_client.xadd(f"{prefix}:stream", {"m": b"\xff"}, id="1-0")
    redis_client.xadd(f"{prefix}:stream", {"m": "two"}, id="2-0")
    redis_client.xgroup_create(f"{prefix}:stream", "group", id="0")
    redis_client.xreadgroup("group", "worker", {f"{prefix}:stream": ">"}, count=1)
    redis_client.zadd(f"{prefix}:zset", {"member": 1.5})
    redis_client.hset(f"{prefix}:hash", "field", "value")
    redis_client.sadd(f"{prefix}:set", "b", "a")
    redis_client.rpush(f"{prefix}:list", "x", "x")
    redis_client.set(f"{prefix}:string", "text", ex=100)
    redis_client.set(f"{{{namespace}:other:0}}", "not asked for")

    shown = snapshot(redis_client, prefix)

    assert shown == {
        f"{prefix}:hash": {"type": "hash", "value": {"field": "value"}},
        f"{prefix}:list": {"type": "list", "value": ["x", "x"]},
        f"{prefix}:set": {"type": "set", "value": ["a", "b"]},
        f"{prefix}:stream": {
            "type": "stream",
            "entries": [["1-0", {"m": "\\xff"}], ["2-0", {"m": "two"}]],
            "groups": {
                "group": {
                    "last": "1-0",
                    "consumers": ["worker"],
                    "pending": {"1-0": ["worker", 1]},
                }
            },
        },
        f"{prefix}:string": {"type": "string", "value": "text", "expires": True},
        f"{prefix}:zset": {"type": "zset", "value": {"member": 1.5}},
    }


def test_snapshot_of_nothing_is_empty(redis_client: redis.Redis, namespace: str) -> None:
    shown = snapshot(redis_client, f"{{{namespace}")

    assert shown == {}
