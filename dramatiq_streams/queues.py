"""The main path of a queue: enqueue, read, acknowledge, release, purge, count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import clock
from .executor import Alarm, Executor
from .keys import GROUP, MESSAGE_FIELD, RELEASED, QueueKeys
from .messages import Entry
from .replies import Blocked, Reading, blocked_in, reading_in
from .scope import Scope
from .scripts import Scripts
from .spool import Spooled
from .uniqueness import Reservation

#: The most delayed messages that one read forwards.
FORWARD_LIMIT = 100

#: The most deliveries of one lane that are looked through for lost replies.
UNHELD_LIMIT = 1000

#: For how long a spool is remembered whose messages have all come: longer than any outage.
SPOOL_TTL_MS = 90 * 86_400_000


@dataclass(frozen=True, slots=True)
class Purged:
    """How much was dropped of a queue."""

    #: Waiting, delivered and delayed.
    messages: int
    dead: int


class Queues:
    """The main path of every queue in a scope.

    Args:
        max_deliveries: The last delivery of a message counts only when it begins; 0: all count.
    """

    def __init__(self, executor: Executor, scope: Scope, *, max_deliveries: int = 0) -> None:
        self._executor = executor
        self._scripts = Scripts(executor)
        self._scope = scope
        self._max_deliveries = max_deliveries
        #: The server's clock minus this machine's monotonic one, as the last read has found it.
        self._clock_ahead_ms: float | None = None

    def enqueue(self, queue_name: str, lane: int, body: bytes) -> None:
        """Append an encoded message to a lane."""
        self._executor.execute(*self.enqueue_command(queue_name, lane, body))

    def enqueue_command(self, queue_name: str, lane: int, body: bytes) -> tuple[Any, ...]:
        """The command of `enqueue`, for a pipeline."""
        return ("XADD", self._scope.keys(queue_name).lanes[lane - 1], "*", MESSAGE_FIELD, body)

    def take_in_command(self, message: Spooled, *, spool: str, previous: int) -> tuple[Any, ...]:
        """Take in a message of a spool, in a pipeline that begins with `take_in_loading_command`.

        Args:
            previous: The row that precedes it in the pipeline; zero for the first.
        """
        keys, names = self._scope.keys(message.queue_name), self._scope.lanes.names
        # The lanes may have changed since: as with delayed messages, the default one takes it.
        is_known = message.lane_name in names
        fallback = self._scope.lanes.default_position - 1
        lane = names.index(message.lane_name) if is_known else fallback
        place = [keys.wake, keys.delayed, keys.delayed_messages, keys.lanes[lane], keys.spools]
        unique = message.reservation or Reservation("", 0, "")
        reservation = [unique.key, unique.unique_for_ms, unique.message_id]
        delay = -1 if message.eta_ms is None else max(message.eta_ms - clock.wall_ms(), 0)
        row = [spool, message.row, previous, message.delivery_id]
        return self._scripts.command(
            "take_in",
            [*place, keys.unique, keys.unique_messages],
            [*row, names[lane], message.body, delay, SPOOL_TTL_MS, *reservation],
        )

    def take_in_loading_command(self) -> tuple[Any, ...]:
        """Makes sure that the script of `take_in_command` is on the server."""
        return self._scripts.loading("take_in")

    def ensure_groups(self, queue_name: str) -> bool:
        """Create what a consumer reads from, where it is missing.

        Returns:
            False when the queue is paused: then blocking reads raise `GroupMissing` at once.
        """
        keys = self._scope.keys(queue_name)
        created = self._scripts.ensure_groups(
            paused=keys.paused, wake=keys.wake, lanes=keys.lanes, group=GROUP
        )
        return created >= 0

    def read(
        self,
        queue_name: str,
        budget: int,
        *,
        shares: Sequence[int],
        acks: Sequence[Entry],
        watch: bool = False,
    ) -> Reading:
        """Settle *acks*, forward what is due, and deliver up to *budget* entries.

        With *watch*, if there are none, say from where to `wait` for more.

        Raises:
            GroupMissing: Call `ensure_groups` and read again.
        """
        keys = self._scope.keys(queue_name)
        reply = self._scripts.read(
            wake=keys.wake,
            paused=keys.paused,
            cancelled=keys.cancelled,
            counts=keys.counts,
            delayed=keys.delayed,
            delayed_messages=keys.delayed_messages,
            unique=keys.unique,
            unique_messages=keys.unique_messages,
            lanes=keys.lanes,
            group=GROUP,
            consumer=self._scope.consumer,
            released=RELEASED,
            budget=budget,
            shares=shares,
            acks=map(_ack, acks),
            lane_names=self._scope.lanes.names,
            fallback=self._scope.lanes.default_position,
            limit=FORWARD_LIMIT,
            max_deliveries=self._max_deliveries,
            watch=int(watch),
        )
        self._clock_ahead_ms = reply[0] - clock.monotonic_ms()
        return reading_in(reply, acks)

    def read_blocking(self, queue_name: str, timeout_ms: int, *, alarm: Alarm) -> Blocked:
        """Wait up to *timeout_ms* for a new entry in any lane, or for a wake-up call.

        *alarm* rings meanwhile. At most one entry of each lane is delivered, so that a waiting
        consumer takes no more than it may need.

        Raises:
            GroupMissing: Call `ensure_groups` and read again.
        """
        keys = self._scope.keys(queue_name)
        streams = (keys.wake, *keys.lanes)
        reader = ("XREADGROUP", "GROUP", GROUP, self._scope.consumer, "COUNT", 1)
        wait = ("BLOCK", max(timeout_ms, 1), "STREAMS", *streams, *(">" for _ in streams))
        reply = self._executor.execute_blocking(*reader, *wait, alarm=alarm)
        blocked = blocked_in(reply or [], keys, self._server_ms())
        # What is blocked is served by the server itself, which knows nothing of cancelled messages.
        if blocked.entries and self._executor.execute("EXISTS", keys.cancelled):
            return self._screened(blocked, keys)
        return blocked

    def wait(
        self, queue_name: str, timeout_ms: int, *, last_ids: Sequence[str], alarm: Alarm
    ) -> None:
        """Wait up to *timeout_ms* until there is something to read; nothing is delivered.

        For a budget smaller than the number of lanes, each of which a blocking read may empty.

        Raises:
            GroupMissing: Call `ensure_groups` and read again.
        """
        keys = self._scope.keys(queue_name)
        wait = ("XREAD", "COUNT", 1, "BLOCK", max(timeout_ms, 1))
        streams = ("STREAMS", keys.wake, *keys.lanes, *last_ids)
        self._executor.execute_blocking(*wait, *streams, alarm=alarm)

    def acknowledge(self, queue_name: str, acks: Sequence[Entry]) -> list[Entry]:
        """Remove *acks* for good; returns those that this consumer no longer holds."""
        keys = self._scope.keys(queue_name)
        refused = self._scripts.ack(
            wake=keys.wake,
            unique=keys.unique,
            unique_messages=keys.unique_messages,
            lanes=keys.lanes,
            group=GROUP,
            consumer=self._scope.consumer,
            acks=map(_ack, acks),
        )
        return [acks[position - 1] for position in refused]

    def release(self, queue_name: str, entries: Iterable[Entry]) -> int:
        """Give *entries* back to others, in their old place; returns how many were still held."""
        keys = self._scope.keys(queue_name)
        return self._scripts.release(
            wake=keys.wake,
            lanes=keys.lanes,
            group=GROUP,
            consumer=self._scope.consumer,
            released=RELEASED,
            entries=((*_triple(entry), _given_back(entry)) for entry in entries),
        )

    def begin(self, queue_name: str, entry: Entry) -> bool:
        """Count the last delivery of *entry*, which starts now; False when it must not start."""
        entry.is_beginning = True
        is_held = self._scripts.begin(
            lane=self._scope.keys(queue_name).lanes[entry.lane - 1],
            group=GROUP,
            consumer=self._scope.consumer,
            entry=entry.entry_id,
            deliveries=entry.deliveries,
        )
        if is_held:
            entry.deliveries += 1
            entry.has_begun = True
        return is_held == 1

    def release_unheld(self, queue_name: str, held: Iterable[Entry]) -> int:
        """Give back what was delivered to this consumer in replies that never arrived.

        Only to be called while no read of this consumer is under way.
        """
        keys = self._scope.keys(queue_name)
        return self._scripts.release_unheld(
            wake=keys.wake,
            lanes=keys.lanes,
            group=GROUP,
            consumer=self._scope.consumer,
            released=RELEASED,
            held=((entry.lane, entry.entry_id) for entry in held),
            limit=UNHELD_LIMIT,
        )

    def purge(self, queue_name: str) -> Purged:
        """Drop everything: waiting, delivered, delayed and dead."""
        keys = self._scope.keys(queue_name)
        messages, dead = self._scripts.purge(
            delayed=keys.delayed,
            delayed_messages=keys.delayed_messages,
            dead=keys.dead,
            dead_expiries=keys.dead_expiries,
            cancelled=keys.cancelled,
            unique=keys.unique,
            unique_messages=keys.unique_messages,
            wake=keys.wake,
            lanes=keys.lanes,
            group=GROUP,
        )
        return Purged(messages, dead)

    def size(self, queue_name: str) -> int:
        """How many messages are not done: waiting, delivered and delayed, read at one instant."""
        keys = self._scope.keys(queue_name)
        return self._scripts.size(delayed=keys.delayed, lanes=keys.lanes)

    def _server_ms(self) -> float | None:
        ahead_ms = self._clock_ahead_ms
        return None if ahead_ms is None else clock.monotonic_ms() + ahead_ms

    def _screened(self, blocked: Blocked, keys: QueueKeys) -> Blocked:
        dropped = self._scripts.screen(
            cancelled=keys.cancelled,
            counts=keys.counts,
            unique=keys.unique,
            unique_messages=keys.unique_messages,
            lanes=keys.lanes,
            group=GROUP,
            consumer=self._scope.consumer,
            lane_names=self._scope.lanes.names,
            entries=map(_triple, blocked.entries),
        )
        kept = [e for place, e in enumerate(blocked.entries, 1) if place not in dropped]
        return Blocked(kept, blocked.wakes)


def _triple(entry: Entry) -> tuple[int, str, int]:
    return entry.lane, entry.entry_id, entry.deliveries


def _ack(entry: Entry) -> tuple[int | str, ...]:
    # With a 1 the server frees the unique key of an entry; to look for one would cost all others.
    return (*_triple(entry), 1) if entry.has_unique_key else _triple(entry)


def _given_back(entry: Entry) -> int:
    """How many deliveries of *entry* remain counted: without this one, which did not start."""
    is_counted = entry.has_begun or not entry.is_last
    return entry.deliveries - is_counted
