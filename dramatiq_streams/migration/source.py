"""The server of a RedisBroker: what it has of each queue, and how that leaves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .. import clock
from ..executor import Executor
from .layout import Kind, Layout, Place, State
from .passages import Passage, Transit
from .scripts import MigrationScripts

#: How many messages are looked at, and on their way, at once: `depart` has seven values of each.
PAGE = 200

#: How many bytes of them, about.
PAGE_BYTES = 8 * 2**20

#: How many keys of the source one SCAN looks at, and how many heartbeats are fetched at once.
SCAN_COUNT = 1_000


@dataclass(frozen=True, slots=True)
class Survey:
    """What there is of one queue, at one instant."""

    queue_name: str
    #: In the queues themselves; without what workers have.
    there: dict[State, int]
    #: What each worker has, if anything.
    held: dict[Place, int]
    #: How many bodies there are that are neither there nor held.
    orphans: dict[State, int]
    in_transit: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing."""
        numbers = (*self.there.values(), *self.held.values(), *self.orphans.values())
        return not any(numbers) and not self.in_transit

    def held_of(self, state: State) -> int:
        """How many messages in one state workers have."""
        return sum(number for place, number in self.held.items() if place.state is state)


class Source:
    """One namespace of RedisBroker on the server that *executor* reaches.

    Args:
        heartbeat_timeout_ms: A worker that gave no sign of life for so long is dead: RedisBroker's
            option of that name.
    """

    def __init__(self, executor: Executor, namespace: str, *, heartbeat_timeout_ms: int) -> None:
        self._executor = executor
        self._scripts = MigrationScripts(executor)
        self._timeout_ms = heartbeat_timeout_ms
        self.layout = Layout(namespace)

    def was_used(self) -> bool:
        """Whether there was ever a RedisBroker here: each of its commands is a sign of life."""
        return bool(self._executor.execute("EXISTS", self.layout.heartbeats))

    def queue_names(self) -> list[str]:
        """The queues that have messages, by name.

        RedisBroker keeps no list of them, so this is the one place where a keyspace is walked, in
        pages; it is that of the source.
        """
        return sorted({name for key in self._keys() if (name := self.layout.queue_of(key))})

    def survey(self, queue_name: str) -> Survey:
        """Count what there is of a queue."""
        layout = self.layout
        queues = [layout.waiting(queue_name), layout.delayed(queue_name)]
        held = [layout.held(place, worker) for worker in self._workers() for place in queues]
        sizes = self._at_one_instant(
            [("LLEN", queues[0].ids), ("LLEN", queues[1].ids)],
            [("HLEN", place.bodies) for place in queues],
            [("ZCARD", layout.dead(queue_name).ids), ("XLEN", layout.transit(queue_name))],
            [("SCARD", place.ids) for place in held],
        )
        (waiting, delayed), bodies, (dead, in_transit), taken = sizes
        there = {State.WAITING: waiting, State.DELAYED: delayed, State.DEAD: dead}
        found = {place: number for place, number in zip(held, taken, strict=True) if number}
        survey = Survey(queue_name, there, found, {}, in_transit)
        for place, number in zip(queues, bodies, strict=True):
            known = there[place.state] + survey.held_of(place.state)
            survey.orphans[place.state] = max(number - known, 0)
        return survey

    def is_alive(self, worker: str) -> bool:
        """Whether *worker* gave a sign of life in time, by RedisBroker's own rule."""
        heartbeat = self._executor.execute("ZSCORE", self.layout.heartbeats, worker)
        return heartbeat is not None and float(heartbeat) > self.deadline_ms()

    def deadline_ms(self) -> int:
        """Who gave no sign of life after this instant is dead.

        RedisBroker goes by the clock of whoever looks; here that and the server's have to agree.
        """
        seconds, _ = self._executor.execute("TIME")
        return min(clock.wall_ms(), int(seconds) * 1000) - self._timeout_ms

    def ids(self, place: Place, start: int) -> list[bytes]:
        """A page of the ids in *place*, from position *start* on; of a set or a hash all of them.

        Sets and hashes are what workers have: they are small, and have no order.
        """
        page = (place.ids, start, start + PAGE - 1)
        command: tuple[object, ...] = {
            Kind.LIST: ("LRANGE", *page),
            Kind.ZSET: ("ZRANGE", *page),
            Kind.SET: ("SMEMBERS", place.ids),
            Kind.HASH: ("HKEYS", place.ids),
        }[place.kind]
        found: list[bytes] = self._executor.execute(*command)
        return found if place.kind in (Kind.LIST, Kind.ZSET) else found[start:]

    def sizes(self, place: Place, ids: Sequence[bytes]) -> list[int]:
        """How many bytes each message has; zero for one that is not there any more."""
        commands = [("HSTRLEN", place.bodies, message) for message in ids]
        return _raised(self._executor.execute_many(commands))

    def bodies(self, place: Place, ids: Sequence[bytes]) -> list[bytes | None]:
        """The messages; None for one that is not there any more."""
        found: list[bytes | None] = self._executor.execute("HMGET", place.bodies, *ids)
        return found

    def depart(
        self,
        queue_name: str,
        place: Place,
        passages: Sequence[tuple[bytes, Passage]],
        *,
        target: str,
        source: str,
        row: int,
    ) -> int:
        """Put messages in transit, from row *row* of this run on.

        Returns:
            How many: others have taken the rest meanwhile. -1: the worker that has them lives.
        """
        messages = [value for message, passage in passages for value in (message, *passage.packed)]
        return self._scripts.depart(
            place=place.ids,
            bodies=place.bodies,
            transit=self.layout.transit(queue_name),
            heartbeats=self.layout.heartbeats,
            kind=place.kind.value,
            worker=place.worker,
            deadline=self.deadline_ms(),
            target=target,
            source=source,
            row=row,
            messages=messages,
        )

    def in_transit(self, queue_name: str, *, after: bytes | None = None) -> list[Transit]:
        """The oldest messages in transit, of whatever run; those behind the entry *after*."""
        start: bytes | str = "-"
        if after is not None:
            # Not `(`, which came with Redis 6.2: the source may be older.
            milliseconds, _, number = after.partition(b"-")
            start = b"%s-%d" % (milliseconds, int(number) + 1)
        command = ("XRANGE", self.layout.transit(queue_name), start, "+", "COUNT", PAGE)
        return [Transit.parse(entry, flat) for entry, flat in self._executor.execute(*command)]

    def confirm(self, queue_name: str, arrived: Sequence[Transit]) -> None:
        """Drop what has arrived."""
        entries = [message.entry for message in arrived]
        self._scripts.confirm(transit=self.layout.transit(queue_name), entries=entries)

    def _keys(self) -> Iterator[str]:
        for pattern in self.layout.patterns:
            cursor = b"0"
            while True:
                scan = ("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)
                cursor, keys = self._executor.execute(*scan)
                yield from (key.decode(errors="surrogateescape") for key in keys)
                if cursor == b"0":
                    break

    def _workers(self) -> Iterator[str]:
        start = 0
        while True:
            page = ("ZRANGE", self.layout.heartbeats, start, start + SCAN_COUNT - 1)
            found = self._executor.execute(*page)
            yield from (worker.decode() for worker in found)
            if len(found) < SCAN_COUNT:
                return
            start += SCAN_COUNT

    def _at_one_instant(self, *groups: Sequence[tuple[str, str]]) -> list[list[int]]:
        commands = [command for group in groups for command in group]
        replies = _raised(self._executor.execute_many([("MULTI",), *commands, ("EXEC",)]))
        numbers = iter(replies[-1])
        return [[next(numbers) for _ in group] for group in groups]


def _raised(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
