"""One shard of a queue, seeded by hand, and its whole keyspace as lines that can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import redis

from dramatiq_streams.claims.scripts import ClaimScripts
from dramatiq_streams.connections import Connections
from dramatiq_streams.executor import Executor
from dramatiq_streams.keys import GROUP, RELEASED, queue_keys
from dramatiq_streams.letter_scripts import LetterScripts
from dramatiq_streams.middleware.idempotency.scripts import RecordScripts
from dramatiq_streams.order_scripts import OrderScripts
from dramatiq_streams.scripts import Scripts
from dramatiq_streams.unique_scripts import UniqueScripts
from tests.support.keyspace import snapshot
from tests.support.servers import Server

LANES = ("high", "default", "low")
#: Entries that tests seed have ids far below; those that the server makes are after 2001.
_FIRST_SERVER_MS = 10**12
_NOW_TOLERANCE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Changes:
    """What a script did: the lines that went and the lines that came."""

    gone: frozenset[str]
    came: frozenset[str]

    def __str__(self) -> str:
        return "\n".join([*(f"- {x}" for x in self.gone), *(f"+ {x}" for x in self.came)])


def changes(*, gone: set[str] | None = None, came: set[str] | None = None) -> Changes:
    """The changes a test expects: these and nothing else."""
    return Changes(frozenset(gone or ()), frozenset(came or ()))


NOTHING = changes()
TTL_MS = 86_400_000
#: A new dead letter is the only one, and is kept for so long.
KEPT = {"dead stream", "dead:expiries zset", f"dead:expiries new in {TTL_MS // 1000} s"}
WAKE_UP = "wake entry new w=1"


class AllScripts(Scripts, LetterScripts, OrderScripts, UniqueScripts, ClaimScripts, RecordScripts):
    """Those of every subject."""


class Shard:
    """The keys of one queue on *server*, its scripts, and ways to seed both.

    `lines` shows the whole keyspace, one fact a line:

        high entry 1-0 m=body         high pending 1-0 me 2         high last 1-0
        delayed d 1000                delayed:messages d high:body  consumers me now
        dead entry new m=body ...     wake entry new w=1

    Ids and scores that the server's clock made read `new` and `now`. Consumers without pending
    entries mean nothing, and servers create them at different moments: they are left out.
    """

    def __init__(self, server: Server, namespace: str) -> None:
        of_admin = Connections(url=server.admin_url, client=None, parameters={})
        self.client: redis.Redis = of_admin.client()
        self.keys = queue_keys(namespace, "q", LANES)
        of_broker = Connections(url=server.url, client=None, parameters={})
        self._executor: Executor = of_broker.shared()
        self.scripts = AllScripts(self._executor)
        self._prefix = self.keys.wake.removesuffix("wake")

    def close(self) -> None:
        """Disconnect."""
        self._executor.close()
        self.client.connection_pool.disconnect()

    def ensure_groups(self) -> None:
        """Create every stream with its group, as a consumer does before it reads."""
        self.scripts.ensure_groups(
            paused=self.keys.paused, wake=self.keys.wake, lanes=self.keys.lanes, group=GROUP
        )

    def lane(self, name: str) -> str:
        """The key of the lane, or of the wake-up stream, called *name*."""
        return self.keys.wake if name == "wake" else self.keys.lanes[LANES.index(name)]

    def wait(self, lane: str, *entries: str) -> None:
        """Seed entries that nobody has read; the body of each is its lane and its id."""
        for entry in entries:
            self.client.xadd(self.lane(lane), {"m": f"{lane} {entry}"}, id=entry)

    def wait_unique(self, lane: str, entry: str, reservation: str) -> None:
        """Seed an entry that nobody has read and that carries a reservation."""
        self.client.xadd(self.lane(lane), {"m": f"{lane} {entry}", "u": reservation}, id=entry)

    def bury(self, letter: str, *, expires_ms: int | None, body: str = "") -> None:
        """Seed a dead letter; None for one whose time is not noted."""
        self.client.xadd(self.keys.dead, {"m": body}, id=letter)
        if expires_ms is not None:
            self.client.zadd(self.keys.dead_expiries, {letter: expires_ms})

    def deliver(
        self,
        lane: str,
        entry: str,
        consumer: str,
        *,
        deliveries: int = 1,
        idle_ms: int = 0,
        reservation: str | None = None,
    ) -> None:
        """Seed an entry that *consumer* holds; seed each lane in the order of ids."""
        if reservation is None:
            self.wait(lane, entry)
        else:
            self.wait_unique(lane, entry, reservation)
        self.redeliver(lane, entry, consumer, deliveries=deliveries, idle_ms=idle_ms)

    def redeliver(
        self, lane: str, entry: str, consumer: str, *, deliveries: int, idle_ms: int = 0
    ) -> None:
        """Give an entry that is there already to *consumer*."""
        claim = ("XCLAIM", self.lane(lane), GROUP, consumer, 0, entry, "IDLE", idle_ms)
        state = ("RETRYCOUNT", deliveries, "FORCE", "JUSTID", "LASTID", entry)
        self._executor.execute(*claim, *state)

    def release(self, lane: str, entry: str, *, deliveries: int = 1) -> None:
        """Seed an entry that was delivered and that nobody works on any more."""
        self.deliver(lane, entry, RELEASED, deliveries=deliveries)

    def delay(self, delivery: str, packed: str | bytes, eta_ms: int) -> None:
        """Seed a delayed message: *packed* is its lane's name, a colon and its body."""
        self.client.hset(self.keys.delayed_messages, delivery, packed)
        self.client.zadd(self.keys.delayed, {delivery: eta_ms})

    def reserve(self, key: str, token: str, message_id: str, *, ends_in_ms: int = 5_000) -> str:
        """Seed a unique key that a message has; returns what its entry carries."""
        self.client.hset(self.keys.unique_messages, key, f"{token}:{message_id}")
        self.client.zadd(self.keys.unique, {key: self.now_ms() + ends_in_ms})
        return f"{token}:{key}"

    def reserved(self) -> dict[str, str]:
        """Every unique key with its record."""
        found = self.client.hgetall(self.keys.unique_messages)
        return {key.decode(): record.decode() for key, record in found.items()}

    def delete(self, lane: str, entry: str) -> None:
        """Delete an entry from its stream; it stays pending, as after somebody's XDEL."""
        self.client.xdel(self.lane(lane), entry)

    def idle_ms(self, lane: str, entry: str) -> int:
        """How long ago a pending entry was delivered, claimed or extended."""
        found = self.client.xpending_range(self.lane(lane), GROUP, entry, entry, 1)
        return int(found[0]["time_since_delivered"])

    def eta(self, delivery: str) -> int:
        """When a delayed message is due, in server milliseconds."""
        score = self.client.zscore(self.keys.delayed, delivery)
        if not isinstance(score, float):
            raise AssertionError(f"{delivery} is not delayed")
        return int(score)

    def read_new(self, lane: str) -> list[str]:
        """Deliver all that a lane has and that nobody has read; returns their ids."""
        command = ("XREADGROUP", "GROUP", GROUP, "me", "STREAMS", self.lane(lane), ">")
        reply = self._executor.execute(*command) or [(b"", [])]
        return [entry.decode() for entry, _ in reply[0][1]]

    def stored(self, key: str) -> list[Any]:
        """The fields of each entry of a stream, byte for byte."""
        return [fields for _, fields in self.client.xrange(key) or ()]

    def now_ms(self) -> int:
        """The server's clock."""
        seconds, microseconds = self.client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def fill_memory(self) -> None:
        """Make the server refuse to store more; only for a server of the test's own."""
        self.client.config_set("maxmemory-policy", "noeviction")
        self.client.config_set("maxmemory", 1)

    def is_redis62(self) -> bool:
        """Whether the server keeps entries pending that are deleted from their stream."""
        version: str = self.client.info("server")["redis_version"]
        return version.startswith("6.")

    def lines(self) -> frozenset[str]:
        """Every fact about every key of the shard."""
        now_ms = self.now_ms()
        found: set[str] = set()
        for key, value in snapshot(self.client, self._prefix).items():
            name = key.removeprefix(self._prefix).removeprefix("lane:")
            facts = _expiries(value, now_ms) if name == "dead:expiries" else _facts(value, now_ms)
            found |= {f"{name} {fact}" for fact in facts}
        return frozenset(found)

    def changes_since(self, before: frozenset[str]) -> Changes:
        """What went and what came since *before*, over all keys."""
        after = self.lines()
        return Changes(before - after, after - before)


def _facts(value: dict[str, Any], now_ms: int) -> Iterator[str]:
    yield value["type"]
    if value["type"] == "stream":
        yield from _stream_facts(value)
    elif value["type"] in ("zset", "hash"):
        for member, content in value["value"].items():
            yield f"{member} {_score(content, now_ms) if isinstance(content, float) else content}"


def _expiries(value: dict[str, Any], now_ms: int) -> Iterator[str]:
    yield value["type"]
    for letter, expiry in value["value"].items():
        yield f"{_id(letter)} in {(expiry - now_ms) / 1000:.0f} s"


def _stream_facts(stream: dict[str, Any]) -> Iterator[str]:
    for entry, fields in stream["entries"]:
        yield " ".join(["entry", _id(entry), *(f"{key}={text}" for key, text in fields.items())])
    for group, state in stream["groups"].items():
        yield f"group {group}"
        yield f"last {_id(state['last'])}"
        for entry, (consumer, deliveries) in state["pending"].items():
            yield f"pending {_id(entry)} {consumer} {deliveries}"


def _score(score: float, now_ms: int) -> str:
    return "now" if abs(score - now_ms) < _NOW_TOLERANCE_MS else f"{score:.0f}"


def _id(entry: str) -> str:
    return entry if int(entry.partition("-")[0]) < _FIRST_SERVER_MS else "new"
