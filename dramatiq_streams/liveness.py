"""Heartbeats of consumers, and what is done about one that has died."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import clock
from .condition import Condition
from .executor import Executor
from .identity import Identity
from .keys import GROUP, RELEASED
from .lifetimes import Lifetimes
from .messages import Recovered
from .scope import Scope
from .scripts import Scripts
from .steady_clock import SteadyClock

#: The most entries of each lane that one script call frees.
RELEASE_LIMIT = 500

#: The most late consumers that one heartbeat returns.
LATE_LIMIT = 50

#: The most entries of each lane that one script call recovers; XAUTOCLAIM looks at ten times that.
RECOVER_LIMIT = 100

#: The most script calls that one round of recovery makes before it lets others have a turn.
RECOVER_CALLS = 20

_START = "0-0"

#: The key of the registry where processes cannot check each other: never written.
_NO_HOST = "none"


@dataclass(frozen=True, slots=True)
class Late:
    """A consumer whose heartbeat is overdue, or later than the server's clock, which was set back.

    Then `overdue_ms` is below zero.
    """

    consumer: str
    #: Server milliseconds.
    heartbeat_ms: int
    overdue_ms: int
    connection_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a heartbeat returned: who is on this host, and whose heartbeat is late."""

    neighbours: dict[str, Identity]
    late: list[Late]
    recovered: Recovered


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of life of this consumer, and how others can tell that it has died."""

    connection_ids: Iterable[int]
    identity: Identity | None
    host: str | None
    host_ttl_ms: int
    late_ms: int
    #: How it does.
    condition: Condition

    def parameters(self) -> dict[str, Any]:
        """The parameters of the scripts."""
        is_checkable = self.identity is not None and self.host is not None
        return {
            "ids": " ".join([*map(str, self.connection_ids), str(self.condition)]),
            "identity": str(self.identity) if is_checkable else "",
            "host_ttl": self.host_ttl_ms,
            "late": self.late_ms,
        }


class Liveness:
    """Who is alive, on every queue of a scope."""

    def __init__(self, executor: Executor, scope: Scope) -> None:
        self._executor = executor
        self._scripts = Scripts(executor)
        self._scope = scope
        self._cursors: dict[str, Sequence[str]] = {}
        self._clock = SteadyClock()

    def beat(self, queue_name: str, sign: Sign) -> Pulse:
        """Note that this consumer is alive; returns who else may be looked at."""
        keys = self._scope.keys(queue_name)
        reply = self._scripts.beat(
            consumers=keys.consumers,
            connections=keys.connections,
            host=keys.host(sign.host or _NO_HOST),
            consumer=self._scope.consumer,
            limit=LATE_LIMIT,
            **sign.parameters(),
        )
        return _pulse(reply, Recovered(0, 0))

    def tend(
        self,
        queue_name: str,
        sign: Sign,
        *,
        lease_ms: int,
        max_deliveries: int,
        lifetimes: Lifetimes,
    ) -> Pulse:
        """As `beat`, and take back what has idled for *lease_ms*, for whoever reads next.

        What was delivered *max_deliveries* times already becomes a dead letter instead.
        """
        keys = self._scope.keys(queue_name)
        cursors = self._cursors.get(queue_name, (_START,) * len(keys.lanes))
        released = dead_lettered = 0
        for _ in range(RECOVER_CALLS):
            sent_ms = clock.monotonic_ms()
            freed, given_up, *rest = self._scripts.tend(
                consumers=keys.consumers,
                connections=keys.connections,
                host=keys.host(sign.host or _NO_HOST),
                wake=keys.wake,
                delayed=keys.delayed,
                dead=keys.dead,
                dead_expiries=keys.dead_expiries,
                unique=keys.unique,
                unique_messages=keys.unique_messages,
                lanes=keys.lanes,
                consumer=self._scope.consumer,
                late_limit=LATE_LIMIT,
                group=GROUP,
                released=RELEASED,
                lease=lease_ms,
                latest=self._clock.latest_ms(tolerance_ms=lease_ms // 2),
                cursors=cursors,
                limit=RECOVER_LIMIT,
                max_deliveries=max_deliveries,
                lane_names=self._scope.lanes.names,
                ttl=lifetimes.ttl_ms,
                ttls=lifetimes.of_actors(),
                most=lifetimes.most,
                **sign.parameters(),
            )
            self._clock.note(rest[len(keys.lanes)], sent_ms=sent_ms, tolerance_ms=lease_ms // 2)
            released, dead_lettered = released + freed, dead_lettered + given_up
            cursors = [cursor.decode() for cursor in rest[: len(keys.lanes)]]
            self._cursors[queue_name] = cursors
            if all(cursor == _START for cursor in cursors):
                break
        return _pulse(rest[len(keys.lanes) :], Recovered(released, dead_lettered))

    def connected(self, connection_ids: Iterable[int]) -> frozenset[int]:
        """Which of *connection_ids* the server still has a connection for.

        Raises:
            CommandFailed: An ACL forbids CLIENT LIST.
        """
        ids = sorted(connection_ids)
        if not ids:
            return frozenset()
        text: bytes = self._executor.execute("CLIENT", "LIST", "ID", *ids)
        return frozenset(map(int, re.findall(rb"^id=(\d+) ", text, re.MULTILINE)))

    def release_dead(
        self,
        queue_name: str,
        consumer: str,
        *,
        heartbeat_ms: int | None,
        max_deliveries: int,
        lifetimes: Lifetimes,
    ) -> Recovered:
        """Free all that *consumer* holds, for whoever reads next.

        Nothing happens if its last heartbeat is another than *heartbeat_ms*; None when it is
        provably gone. What was delivered *max_deliveries* times becomes a dead letter.
        """
        keys = self._scope.keys(queue_name)
        released = dead_lettered = 0
        looked_at = RELEASE_LIMIT
        while looked_at >= RELEASE_LIMIT:
            freed, given_up, looked_at = self._scripts.release_dead(
                consumers=keys.consumers,
                wake=keys.wake,
                dead=keys.dead,
                dead_expiries=keys.dead_expiries,
                unique=keys.unique,
                unique_messages=keys.unique_messages,
                lanes=keys.lanes,
                group=GROUP,
                consumer=consumer,
                released=RELEASED,
                heartbeat="" if heartbeat_ms is None else str(heartbeat_ms),
                limit=RELEASE_LIMIT,
                max_deliveries=max_deliveries,
                lane_names=self._scope.lanes.names,
                ttl=lifetimes.ttl_ms,
                ttls=lifetimes.of_actors(),
                most=lifetimes.most,
            )
            released, dead_lettered = released + freed, dead_lettered + given_up
        return Recovered(released, dead_lettered)

    def forget(
        self, queue_name: str, consumer: str, *, heartbeat_ms: int | None, host: str | None
    ) -> bool:
        """Remove *consumer* from the server if it holds nothing; returns whether it was removed.

        Not if its last heartbeat is another than *heartbeat_ms*; None when it is certainly gone.
        """
        keys = self._scope.keys(queue_name)
        removed = self._scripts.forget(
            consumers=keys.consumers,
            connections=keys.connections,
            host=keys.host(host or _NO_HOST),
            wake=keys.wake,
            delayed=keys.delayed,
            lanes=keys.lanes,
            group=GROUP,
            consumer=consumer,
            heartbeat="" if heartbeat_ms is None else str(heartbeat_ms),
        )
        return removed == 1


def _pulse(reply: list[Any], recovered: Recovered) -> Pulse:
    server_ms, count, *rest = reply
    pairs = zip(*[iter(map(bytes.decode, rest[: 2 * count]))] * 2, strict=True)
    found = {name: Identity.parse(text) for name, text in pairs}
    triples = zip(*[iter(rest[2 * count :])] * 3, strict=True)
    return Pulse(
        {name: identity for name, identity in found.items() if identity is not None},
        [_late(server_ms, *triple) for triple in triples],
        recovered,
    )


def _late(server_ms: int, consumer: bytes, heartbeat: bytes, ids: bytes) -> Late:
    heartbeat_ms = int(float(heartbeat))
    return Late(
        consumer=consumer.decode(),
        heartbeat_ms=heartbeat_ms,
        overdue_ms=server_ms - heartbeat_ms,
        connection_ids=frozenset(int(text) for text in ids.split() if text.isdigit()),
    )
