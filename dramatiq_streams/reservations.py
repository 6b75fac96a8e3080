"""Unique keys on the server: who has one, and until when.

A message takes its key as it is enqueued, in one step. Whatever ends the message, in whichever
script, frees the key in that same step: see `lua/include/free.lua`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import InvalidOption
from .executor import Executor
from .messages import Entry
from .scope import Scope
from .unique_scripts import UniqueScripts
from .uniqueness import Reservation

#: How many reservations are fetched, or forgotten, at once.
PAGE = 200

#: The most script calls that one round of expiry makes before it lets others have a turn.
EXPIRE_CALLS = 20


@dataclass(frozen=True, slots=True)
class Held:
    """A unique key that a message has."""

    queue: str
    key: str
    message_id: str
    #: When it is free at the latest, in server milliseconds.
    ends_ms: int

    @property
    def actor_name(self) -> str:
        """The actor, whose name each key begins with."""
        return self.key.partition(":")[0]

    @property
    def cursor(self) -> str:
        """Where the next page begins."""
        return f"{self.ends_ms}:{self.key}"


class Reservations:
    """The unique keys of every queue in a scope."""

    def __init__(self, executor: Executor, scope: Scope) -> None:
        self._executor = executor
        self._scripts = UniqueScripts(executor)
        self._scope = scope

    def enqueue(
        self,
        queue_name: str,
        lane: int,
        body: bytes,
        *,
        reservation: Reservation,
        delivery_id: str,
        delay_ms: int | None,
    ) -> bytes:
        """Enqueue *body* unless another message has its key.

        Args:
            delivery_id: The same when it is sent again: then that changes nothing.

        Returns:
            The id of the message that has the key; empty when *body* is enqueued, now or before.
        """
        keys = self._scope.keys(queue_name)
        return self._scripts.enqueue_unique(
            wake=keys.wake,
            delayed=keys.delayed,
            delayed_messages=keys.delayed_messages,
            lane=keys.lanes[lane - 1],
            unique=keys.unique,
            unique_messages=keys.unique_messages,
            unique_key=reservation.key,
            ttl=reservation.unique_for_ms,
            message_id=reservation.message_id,
            again=int(reservation.follows_itself),
            delivery=delivery_id,
            lane_name=self._scope.lanes.names[lane - 1],
            message=body,
            delay=-1 if delay_ms is None else delay_ms,
        )

    def enqueue_command(
        self,
        queue_name: str,
        lane: int,
        body: bytes,
        *,
        reservation: Reservation,
        delivery_id: str,
        delay_ms: int | None,
    ) -> tuple[Any, ...]:
        """The command of `enqueue`, for a pipeline that begins with `loading_command`."""
        keys = self._scope.keys(queue_name)
        place = [keys.wake, keys.delayed, keys.delayed_messages, keys.lanes[lane - 1]]
        wanted = [reservation.key, reservation.unique_for_ms, reservation.message_id]
        target = [delivery_id, self._scope.lanes.names[lane - 1], body]
        delay = -1 if delay_ms is None else delay_ms
        return self._scripts.command(
            "enqueue_unique",
            [*place, keys.unique, keys.unique_messages],
            [*wanted, int(reservation.follows_itself), *target, delay],
        )

    def loading_command(self) -> tuple[Any, ...]:
        """Makes sure that the script of `enqueue_command` is on the server."""
        return self._scripts.loading("enqueue_unique")

    def start(self, queue_name: str, entry: Entry) -> None:
        """Free the key of *entry*, whose message starts now.

        Raises:
            BrokerConnectionError: It may still have it, until it is settled.
        """
        keys = self._scope.keys(queue_name)
        self._scripts.start_unique(
            lane=keys.lanes[entry.lane - 1],
            unique=keys.unique,
            unique_messages=keys.unique_messages,
            entry=entry.entry_id,
        )
        entry.has_unique_key = False

    def held(self, queue_name: str, *, after: str | None = None) -> Iterator[Held]:
        """The keys that messages of a queue have now, those that end first first.

        Read with plain commands, as they are asked for: what comes meanwhile may be missed.

        Args:
            queue_name: The queue.
            after: The `cursor` of the last one of the page before.

        Raises:
            InvalidOption: *after* is no cursor.
        """
        unique = self._scope.keys(queue_name).unique
        last = _position(after)
        least = f"({self._server_ms()}" if last is None else str(last[0])
        offset = 0
        while True:
            limit = ("LIMIT", offset, PAGE, "WITHSCORES")
            flat = self._executor.execute("ZRANGE", unique, least, "+inf", "BYSCORE", *limit)
            pairs = [(int(float(score)), key) for key, score in zip(*[iter(flat)] * 2, strict=True)]
            yield from self._known(queue_name, [p for p in pairs if last is None or p > last])
            if len(pairs) < PAGE:
                return
            # Not by the offset alone: what goes meanwhile would make others be missed.
            offset = offset + PAGE if least == str(pairs[-1][0]) else 0
            last = pairs[-1] if last is None else max(last, pairs[-1])
            least = str(pairs[-1][0])

    def find(self, queue_name: str, key: str) -> Held | None:
        """Who has *key* in a queue, if anybody."""
        score = self._executor.execute("ZSCORE", self._scope.keys(queue_name).unique, key)
        if score is None or float(score) <= self._server_ms():
            return None
        return next(self._known(queue_name, [(int(float(score)), key.encode())]), None)

    def free(self, held: Held) -> bool:
        """Take a key from its message, which stays; False when it does not have it any more."""
        keys = self._scope.keys(held.queue)
        freed = self._scripts.free_unique(
            unique=keys.unique,
            unique_messages=keys.unique_messages,
            unique_key=held.key,
            message_id=held.message_id,
        )
        return freed == 1

    def expire(self, queue_name: str) -> int:
        """Forget what has ended; returns how many that were."""
        keys = self._scope.keys(queue_name)
        expired = 0
        for _ in range(EXPIRE_CALLS):
            count = self._scripts.expire_unique(
                unique=keys.unique, unique_messages=keys.unique_messages, limit=PAGE
            )
            expired += count
            if count < PAGE:
                break
        return expired

    def _known(self, queue_name: str, pairs: Sequence[tuple[int, bytes]]) -> Iterator[Held]:
        """Those of *pairs*, ends and keys, that a message has; others have ended just before."""
        names = [key for _, key in pairs]
        messages = self._scope.keys(queue_name).unique_messages
        records = self._executor.execute("HMGET", messages, *names) if names else []
        for (ends_ms, key), record in zip(pairs, records, strict=True):
            token, colon, message_id = (record or b"").partition(b":")
            if colon and token.isalnum():
                yield Held(queue_name, key.decode(), message_id.decode(), ends_ms)

    def _server_ms(self) -> int:
        seconds, microseconds = self._executor.execute("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000


def _position(after: str | None) -> tuple[int, bytes] | None:
    if after is None:
        return None
    ends_ms, colon, key = after.partition(":")
    if not colon or not ends_ms.isdecimal():
        raise InvalidOption.of("after", after, "TIME:KEY, as the page before has it")
    return int(ends_ms), key.encode()
