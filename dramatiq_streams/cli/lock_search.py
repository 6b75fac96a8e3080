"""Both kinds of locks in one order: the unique keys of messages, then idempotency keys that run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dramatiq_streams.cli.place import Place
from dramatiq_streams.errors import InvalidOption
from dramatiq_streams.middleware.idempotency.records import Record, Records
from dramatiq_streams.reservations import Held, Reservations


class Kind(StrEnum):
    """What holds a key."""

    #: A message that is to be there once: `unique_for`, `unique_until`.
    UNIQUE = "unique"
    #: Work that is to be done once: the middleware Idempotency.
    IDEMPOTENCY = "idempotency"


@dataclass(frozen=True, slots=True)
class Lock:
    """One key and who has it."""

    kind: Kind
    key: str
    message_id: str
    #: Where the next page begins.
    cursor: str
    #: In server milliseconds.
    ends_ms: int | None
    source: Held | Record = field(repr=False)

    @property
    def actor_name(self) -> str:
        """The actor, whose name each key begins with, as `KeyMaker.scoped` has written it."""
        return self.key.partition(":")[0].replace("%3A", ":").replace("%25", "%")

    @property
    def is_free(self) -> bool:
        """Whether nobody has it: the record of a key that was released."""
        return isinstance(self.source, Record) and self.source.is_free

    def view(self, now_ms: int) -> dict[str, Any]:
        """Its fields as JSON has them."""
        record = self.source if isinstance(self.source, Record) else None
        return {
            "kind": self.kind.value,
            "queue": None if isinstance(self.source, Record) else self.source.queue,
            "key": self.key,
            "actor": self.actor_name,
            "message_id": self.message_id,
            "ends_in_ms": None if self.ends_ms is None else self.ends_ms - now_ms,
            "state": record.state.value if record else None,
            "token": record.token if record else None,
            "attempts": record.attempts if record else None,
            "worker": record.consumer if record else None,
            "started_ms": record.started_ms if record else None,
            "finished_ms": record.finished_ms if record else None,
        }


@dataclass(frozen=True, slots=True)
class LockFilter:
    """Which locks somebody wants: those that fulfil all that is given."""

    kinds: frozenset[Kind] = frozenset(Kind)
    actors: frozenset[str] = frozenset()
    #: In the key or the id of the message; upper and lower case are the same.
    text: str = ""

    def accepts(self, lock: Lock) -> bool:
        """Whether *lock* is wanted."""
        text = self.text.casefold()
        return (not self.actors or lock.actor_name in self.actors) and (
            not text or text in lock.key.casefold() or text in lock.message_id.casefold()
        )


class LockSearch:
    """The locks of a namespace; unique keys of the chosen queues only.

    Args:
        prefix: The option `key_prefix` of Idempotency.
    """

    def __init__(self, place: Place, *, prefix: str) -> None:
        self._rooms = {
            queue.queue_name: Reservations(place.executor, place.scope(queue))
            for queue in place.queues
        }
        self._records = Records(place.executor, namespace=place.namespace, prefix=prefix)

    def held(self, wanted: LockFilter, *, after: str | None = None) -> Iterator[Lock]:
        """The locks that are *wanted*, fetched as they are asked for.

        Args:
            wanted: Which ones.
            after: The `cursor` of the last one of the page before.

        Raises:
            InvalidOption: *after* is no cursor.
        """
        kind, place = _position(after)
        if Kind.UNIQUE in wanted.kinds and kind is not Kind.IDEMPOTENCY:
            yield from filter(wanted.accepts, self._unique(place))
            place = ""
        if Kind.IDEMPOTENCY in wanted.kinds:
            yield from filter(wanted.accepts, self._running(place))

    def find(self, key: str, wanted: LockFilter) -> list[Lock]:
        """All that has exactly this *key*; of idempotency keys also what is done or has failed."""
        found = []
        if Kind.UNIQUE in wanted.kinds:
            for queue_name, room in self._rooms.items():
                held = room.find(queue_name, key)
                found += [_of_message(held)] if held else []
        if Kind.IDEMPOTENCY in wanted.kinds:
            record = self._records.show(key)
            found += [_of_record(record)] if record else []
        return [lock for lock in found if wanted.accepts(lock)]

    def release(self, lock: Lock) -> bool:
        """Free *lock* for the next message; False when its message does not have it any more."""
        if isinstance(lock.source, Held):
            return self._rooms[lock.source.queue].free(lock.source)
        return self._records.release(lock.key)

    def _unique(self, place: str) -> Iterator[Lock]:
        first, _, after = place.partition(":")
        names = sorted(self._rooms)
        if place and first not in names:
            raise _no_cursor(f"{Kind.UNIQUE}:{place}")
        for name in names:
            if name >= first:
                position = after if name == first and after else None
                yield from map(_of_message, self._rooms[name].held(name, after=position))

    def _running(self, after: str) -> Iterator[Lock]:
        return map(_of_record, self._records.each_held(after=after))


def _of_message(held: Held) -> Lock:
    cursor = f"{Kind.UNIQUE}:{held.queue}:{held.cursor}"
    return Lock(Kind.UNIQUE, held.key, held.message_id, cursor, held.ends_ms, held)


def _of_record(record: Record) -> Lock:
    cursor = f"{Kind.IDEMPOTENCY}:{record.key}"
    ends_ms = record.lease_end_ms
    return Lock(Kind.IDEMPOTENCY, record.key, record.message_id, cursor, ends_ms, record)


def _position(after: str | None) -> tuple[Kind | None, str]:
    if after is None:
        return None, ""
    word, colon, place = after.partition(":")
    # A key has an actor, a colon and more, or is cut and ends in a hash.
    is_key = word == Kind.IDEMPOTENCY and (":" in place or "#" in place)
    if not colon or not (is_key or word == Kind.UNIQUE):
        raise _no_cursor(after)
    return Kind(word), place


def _no_cursor(after: str) -> InvalidOption:
    return InvalidOption.of("after", after, "the `next` of the page before")
