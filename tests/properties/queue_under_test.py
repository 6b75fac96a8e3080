"""The rooms of one queue on the real server, as several consumers have them."""

from __future__ import annotations

from typing import Any

import redis

from dramatiq_streams.condition import Condition
from dramatiq_streams.connections import Connections
from dramatiq_streams.dead_letters import DeadLetters
from dramatiq_streams.delays import Delays
from dramatiq_streams.executor import Executor
from dramatiq_streams.keys import GROUP
from dramatiq_streams.lanes import DEFAULT_LANES, Lanes
from dramatiq_streams.leases import Leases
from dramatiq_streams.lifetimes import Lifetimes
from dramatiq_streams.liveness import Liveness, Sign
from dramatiq_streams.messages import Recovered
from dramatiq_streams.queues import Queues
from dramatiq_streams.scope import Scope
from tests.properties.queue_model import State

LANES = Lanes.of(DEFAULT_LANES)
QUEUE = "q"
DEAD_TTL_MS = 86_400_000


class Rooms:
    """What one consumer works with."""

    def __init__(self, executor: Executor, namespace: str, consumer: str) -> None:
        scope = Scope(namespace, LANES, consumer)
        self.consumer = consumer
        self.queues = Queues(executor, scope)
        self.delays = Delays(executor, scope)
        self.leases = Leases(executor, scope)
        self.liveness = Liveness(executor, scope)
        self.dead_letters = DeadLetters(executor, scope, lifetimes=Lifetimes(DEAD_TTL_MS))

    def recover(self, *, lease_ms: int, max_deliveries: int) -> Recovered:
        """Take back what nobody has extended, as the caretaker's thread does."""
        sign = Sign(
            connection_ids=(),
            identity=None,
            host=None,
            host_ttl_ms=1_000,
            late_ms=1_000,
            condition=Condition(),
        )
        pulse = self.liveness.tend(
            QUEUE,
            sign,
            lease_ms=lease_ms,
            max_deliveries=max_deliveries,
            lifetimes=Lifetimes(DEAD_TTL_MS),
        )
        return pulse.recovered


class QueueUnderTest:
    """A queue of its own namespace, its consumers, and what the server holds of it."""

    def __init__(self, url: str, namespace: str) -> None:
        self.client: redis.Redis = Connections(url=url, client=None, parameters={}).client()
        self.executor = Executor(self.client.connection_pool)
        self.namespace = namespace
        self.keys = Scope(namespace, LANES, "").keys(QUEUE)
        self.rooms("setup").queues.ensure_groups(QUEUE)

    def rooms(self, consumer: str) -> Rooms:
        """The rooms as *consumer* has them."""
        return Rooms(self.executor, self.namespace, consumer)

    def make_idle(self, lane: int, entry_id: str, holder: str) -> None:
        """Let the lease of a delivery run out, an hour ago; the count of deliveries stays."""
        claim = ("XCLAIM", self.keys.lanes[lane - 1], GROUP, holder, 0, entry_id)
        self.executor.execute(*claim, "IDLE", 3_600_000, "JUSTID")

    def make_due(self, delivery_id: str, eta: int) -> None:
        """Set another eta."""
        self.client.zadd(self.keys.delayed, {delivery_id: eta})

    def now_ms(self) -> int:
        """The server's clock."""
        seconds, microseconds = self.client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def state(self) -> State:
        """What the server holds."""
        pipeline = self.client.pipeline(transaction=True)
        for lane in self.keys.lanes:
            pipeline.xrange(lane)
        for lane in self.keys.lanes:
            pipeline.xpending_range(lane, GROUP, "-", "+", 10_000)
        pipeline.zrange(self.keys.delayed, 0, -1, withscores=True)
        pipeline.hgetall(self.keys.delayed_messages)
        pipeline.xrange(self.keys.dead)
        *replies, scores, packed, dead = pipeline.execute(raise_on_error=False)
        assert {delivery for delivery, _ in scores} == packed.keys()
        return State(
            lanes=[[fields[b"m"].decode() for _, fields in lane] for lane in replies[:3]],
            pending=[_pending(lane) for lane in replies[3:]],
            delayed={
                delivery.decode(): (*_unpacked(packed[delivery]), int(score))
                for delivery, score in scores
            },
            dead=[
                (fields[b"m"].decode(), fields[b"reason"].decode(), int(fields[b"deliveries"]))
                for _, fields in dead
            ],
        )

    def close(self) -> None:
        """Remove every key, and disconnect."""
        keys = self.keys
        single = (keys.delayed, keys.delayed_messages, keys.dead, keys.wake)
        self.client.delete(*keys.lanes, *single, keys.consumers, keys.connections)
        self.executor.close()


def _pending(reply: Any) -> dict[str, tuple[str, int]]:
    if isinstance(reply, redis.ResponseError):
        assert "NOGROUP" in str(reply)
        return {}
    return {
        entry["message_id"].decode(): (entry["consumer"].decode(), entry["times_delivered"])
        for entry in reply
    }


def _unpacked(packed: bytes) -> tuple[int, str]:
    head, body = packed.decode().split(":", 1)
    name, _, size = head.partition("/")  # of a reservation, which stands before the body
    return LANES.position(name), body[int(size or 0) :]
