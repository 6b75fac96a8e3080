"""What a queue looks like on the server, seen from outside of the broker."""

from typing import Any

import redis

from dramatiq_streams.keys import GROUP, QueueKeys, queue_keys
from dramatiq_streams.lanes import DEFAULT_LANES
from dramatiq_streams.scripts import _HASHES
from tests.support.waiting import wait_until


def keys_of(namespace: str, queue_name: str = "default") -> QueueKeys:
    """The keys of a queue of a broker with the default lanes."""
    return queue_keys(namespace, queue_name, tuple(DEFAULT_LANES))


def pending(client: redis.Redis, namespace: str) -> list[dict[str, Any]]:
    """What is delivered and not settled: `message_id`, `consumer`, `times_delivered`, idle time."""
    found = []
    for lane in keys_of(namespace).lanes:
        if client.exists(lane):
            found += client.xpending_range(lane, GROUP, min="-", max="+", count=100_000)
    return found


def deliveries(client: redis.Redis, namespace: str) -> list[int]:
    """How often each of the `pending` was delivered."""
    return [entry["times_delivered"] for entry in pending(client, namespace)]


def stored(client: redis.Redis, namespace: str) -> int:
    """How many messages are anywhere: waiting, delivered or delayed, dead ones not counted."""
    keys = keys_of(namespace)
    return sum(client.xlen(lane) for lane in keys.lanes) + client.zcard(keys.delayed)


def dead_reasons(client: redis.Redis, namespace: str) -> list[str]:
    """The reason of each dead letter."""
    letters = client.xrange(keys_of(namespace).dead)
    return [fields[b"reason"].decode() for _, fields in letters]


def wait_until_blocked(client: redis.Redis, consumers: int = 1) -> None:
    """Return when so many consumers wait for messages on this server."""
    wait_until(
        lambda: client.info("clients")["blocked_clients"] >= consumers,
        message=f"{consumers} consumers are blocked",
    )


def script(name: str) -> bytes:
    """A pattern for `FaultyProxy` that matches the calls of a script."""
    return b"^EVALSHA " + _HASHES[name].encode()
