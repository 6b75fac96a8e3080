from typing import Any

import pytest

from dramatiq_streams.executor import Executor
from dramatiq_streams.migration.layout import Kind
from dramatiq_streams.migration.scripts import MigrationScripts
from tests.scripts.shard import Shard

DEADLINE_MS = 1_000


class OldKeys:
    """What a RedisBroker would have, under keys of the test."""

    def __init__(self, shard: Shard) -> None:
        self.client = shard.client
        # The script runs on the server that is left, whose user has rights of its own.
        self.scripts = MigrationScripts(Executor(shard.client.connection_pool))
        self.place, self.bodies, self.transit, self.heartbeats = (
            shard.keys.wake.replace("wake", name)
            for name in ("old", "old.msgs", "transit", "heartbeats")
        )

    def seed(self, kind: Kind, *ids: str) -> None:
        """Messages whose ids are kept as *kind*."""
        for message in ids:
            self.client.hset(self.bodies, message, f"body of {message}")
        if kind is Kind.LIST:
            self.client.rpush(self.place, *ids)
        elif kind is Kind.SET:
            self.client.sadd(self.place, *ids)
        elif kind is Kind.ZSET:
            self.client.zadd(self.place, dict.fromkeys(ids, 5))

    def ids(self) -> set[str]:
        """The ids that are still there."""
        read = {
            b"list": lambda: self.client.lrange(self.place, 0, -1),
            b"set": lambda: self.client.smembers(self.place),
            b"zset": lambda: self.client.zrange(self.place, 0, -1),
            b"none": list,
        }[self.client.type(self.place)]
        return {message.decode() for message in read()}

    def in_transit(self) -> list[dict[str, str]]:
        """The fields of what is on its way."""
        found: Any = self.client.xrange(self.transit)
        return [{k.decode(): v.decode() for k, v in fields.items()} for _, fields in found]

    def depart(self, kind: Kind, *ids: str, worker: str = "", row: int = 1) -> int:
        """Run the script."""
        messages: list[Any] = []
        for message in ids:
            messages += [message, "waiting", "low", -1, "", "", f"new {message}"]
        return self.scripts.depart(
            place=self.bodies if kind is Kind.HASH else self.place,
            bodies=self.bodies,
            transit=self.transit,
            heartbeats=self.heartbeats,
            kind=kind.value,
            worker=worker,
            deadline=DEADLINE_MS,
            target="there",
            source="run",
            row=row,
            messages=messages,
        )


@pytest.fixture
def old(shard: Shard) -> OldKeys:
    """Nothing yet."""
    return OldKeys(shard)


@pytest.mark.parametrize("kind", Kind, ids=str)
def test_messages_are_in_transit_in_the_given_order_and_the_others_stay(
    old: OldKeys, kind: Kind
) -> None:
    old.seed(kind, "a", "b", "c")

    departed = old.depart(kind, "b", "a", row=5)

    assert departed == 2
    assert [(each["id"], each["row"], each["m"]) for each in old.in_transit()] == [
        ("b", "5", "new b"),
        ("a", "6", "new a"),
    ]
    assert old.client.hgetall(old.bodies) == {b"c": b"body of c"}
    assert old.ids() == (set() if kind is Kind.HASH else {"c"})


def test_entry_in_transit_has_all_that_is_needed_to_arrive(old: OldKeys) -> None:
    old.seed(Kind.LIST, "a")

    old.depart(Kind.LIST, "a")

    assert old.in_transit() == [
        {
            "target": "there",
            "source": "run",
            "row": "1",
            "id": "a",
            "state": "waiting",
            "lane": "low",
            "eta": "-1",
            "reason": "",
            "error": "",
            "m": "new a",
        }
    ]


@pytest.mark.parametrize("kind", Kind, ids=str)
def test_what_others_have_taken_does_not_depart(old: OldKeys, kind: Kind) -> None:
    old.seed(kind, "a")
    if kind is not Kind.HASH:
        old.client.hset(old.bodies, "taken", "by a worker, who has its id elsewhere")

    departed = old.depart(kind, "taken", "a", "a")

    assert departed == 1
    assert [each["id"] for each in old.in_transit()] == ["a"]
    assert old.client.hexists(old.bodies, "taken") == (kind is not Kind.HASH)


@pytest.mark.parametrize("kind", [Kind.LIST, Kind.SET, Kind.ZSET], ids=str)
def test_id_without_a_body_is_dropped(old: OldKeys, kind: Kind) -> None:
    old.seed(kind, "a", "empty")
    old.client.hdel(old.bodies, "empty")

    departed = old.depart(kind, "empty")

    assert departed == 0
    assert (old.ids(), old.in_transit()) == ({"a"}, [])


@pytest.mark.parametrize(
    ("heartbeat", "departed"), [(DEADLINE_MS + 1, -1), (DEADLINE_MS, 1), (None, 1)]
)
def test_worker_that_lives_keeps_its_messages(
    old: OldKeys, heartbeat: int | None, departed: int
) -> None:
    old.seed(Kind.SET, "a")
    if heartbeat is not None:
        old.client.zadd(old.heartbeats, {"worker": heartbeat})

    assert old.depart(Kind.SET, "a", worker="worker") == departed

    assert old.ids() == ({"a"} if departed < 0 else set())
    assert len(old.in_transit()) == max(departed, 0)


def test_source_whose_memory_is_full_lets_its_messages_go(fillable_shard: Shard) -> None:
    old = OldKeys(fillable_shard)
    old.seed(Kind.LIST, "a")
    fillable_shard.fill_memory()

    departed = old.depart(Kind.LIST, "a")

    assert departed == 1
    assert [each["m"] for each in old.in_transit()] == ["new a"]
