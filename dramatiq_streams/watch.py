"""Notices dead consumers in seconds, by three proofs; the lease stands behind all of them.

1. A process of this host that has provably ended (its pid is gone, or belongs to another by now).
2. A process whose heartbeat is overdue by the disconnect grace while the server has none of its
   connections any more. The server sees a connection close when a process dies, wherever it ran.
   Only a watcher that has itself been connected, and sent heartbeats, for that long may judge:
   after a restart, a failover or a time without answers everybody is late, and the quickest must
   not bury the others.
3. An expired lease: see `leases`.

A living process that can reach the server passes all three: a busy one keeps its connections, and
one that lost them is back, with a heartbeat, within the grace.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import replace

from dramatiq.logging import get_logger

from . import clock
from .condition import Condition
from .errors import CommandFailed
from .events import Event, Events
from .executor import Presence
from .identity import Identity, host_id
from .lifetimes import Lifetimes
from .liveness import Late, Liveness, Pulse, Sign
from .messages import Recovered
from .options import BrokerOptions

#: A consumer that is late by this much, and holds nothing, is forgotten.
FORGET_MS = 600_000

#: The longest time between two heartbeats.
MAX_INTERVAL_MS = 1_600.0


class Watch:
    """Beats for this consumer and watches over the others, on each queue it consumes."""

    def __init__(
        self,
        liveness: Liveness,
        options: BrokerOptions,
        *,
        lifetimes: Lifetimes,
        consumer: str,
        presence: Presence,
        readers: Callable[[str], Iterable[Presence]],
        condition: Callable[[str], Condition],
        events: Events,
    ) -> None:
        self.logger = get_logger(__name__, type(self))
        self._liveness = liveness
        self._options = options
        self._lifetimes = lifetimes
        self._consumer = consumer
        self._presence = presence
        self._readers = readers
        self._condition = condition
        self._events = events
        self._identity = Identity.own()
        self._may_list_clients = True
        self._last_beat_ms = -math.inf
        self._steady_since_ms = math.inf
        self._premature: dict[str, dict[tuple[str, int], float]] = {}

    def tend(self, queue_name: str) -> None:
        """Send a heartbeat, and free what dead consumers of *queue_name* hold."""
        pulse = self._steadily(queue_name, self._tend)
        self._tell_recovered(queue_name, pulse.recovered)
        self._bury_neighbours(queue_name, pulse)
        late = [one for one in pulse.late if one.consumer != self._consumer]
        for one in self._disconnected(self._long_silent(queue_name, late)):
            self._free(queue_name, one.consumer, one.heartbeat_ms, "is disconnected")
        for one in late:
            if one.overdue_ms > max(FORGET_MS, 2 * self._options.lease_ms):
                self._liveness.forget(
                    queue_name, one.consumer, heartbeat_ms=one.heartbeat_ms, host=self._host
                )

    def register(self, queue_name: str) -> None:
        """Send a heartbeat before anything is delivered: this process may die of the first message.

        Raises:
            BrokerConnectionError: The server cannot be reached or cannot serve.
        """
        self._steadily(queue_name, self._liveness.beat)

    def leave(self, queue_name: str) -> None:
        """Forget this consumer, if it holds nothing, when its process ends in good order."""
        self._liveness.forget(queue_name, self._consumer, heartbeat_ms=None, host=self._host)

    @property
    def _host(self) -> str | None:
        address = self._presence.address
        return None if address is None else host_id(address)

    def _steadily(self, queue_name: str, send: Callable[[str, Sign], Pulse]) -> Pulse:
        told = self._host, self._connection_ids(queue_name)
        pulse = send(queue_name, self._sign(queue_name))
        if told != (self._host, self._connection_ids(queue_name)):
            # It went over a new connection, of which nothing was known before.
            again = send(queue_name, self._sign(queue_name))
            pulse = replace(again, recovered=pulse.recovered + again.recovered)
        self._note_beat()
        return pulse

    def _tend(self, queue_name: str, sign: Sign) -> Pulse:
        return self._liveness.tend(
            queue_name,
            sign,
            lease_ms=self._options.lease_ms,
            max_deliveries=self._options.max_deliveries,
            lifetimes=self._lifetimes,
        )

    def _tell_recovered(self, queue_name: str, recovered: Recovered) -> None:
        self._events.tell(Event.RECOVERED, queue_name, count=recovered.released)
        self._events.tell(Event.POISONED, queue_name, count=recovered.dead_lettered)
        if recovered.released or recovered.dead_lettered:
            self.logger.warning(
                "Messages of queue %r recovered from dead workers: %d; dead letters now, because"
                " they were delivered too often: %d.",
                queue_name,
                recovered.released,
                recovered.dead_lettered,
            )

    def _connection_ids(self, queue_name: str) -> set[int]:
        presences = [self._presence, *self._readers(queue_name)]
        return {one.client_id for one in presences if one.client_id is not None}

    def _sign(self, queue_name: str) -> Sign:
        return Sign(
            connection_ids=self._connection_ids(queue_name),
            identity=self._identity,
            host=self._host,
            host_ttl_ms=max(FORGET_MS, 2 * self._options.lease_ms),
            late_ms=self._options.disconnect_grace_ms,
            condition=self._condition(queue_name),
        )

    def _note_beat(self) -> None:
        now_ms = clock.monotonic_ms()
        if now_ms - self._last_beat_ms > self._options.disconnect_grace_ms / 2:
            self._steady_since_ms = now_ms
        self._last_beat_ms = now_ms

    def _bury_neighbours(self, queue_name: str, pulse: Pulse) -> None:
        for consumer, identity in pulse.neighbours.items():
            if consumer != self._consumer and identity.is_gone:
                self._free(queue_name, consumer, None, "has ended")
                self._liveness.forget(queue_name, consumer, heartbeat_ms=None, host=self._host)

    def _long_silent(self, queue_name: str, late: list[Late]) -> list[Late]:
        """Those of *late* that have sent no heartbeat for the whole grace.

        Nobody can tell how old one is that is later than the server's clock: it counts from when
        it was first seen.
        """
        now_ms = clock.monotonic_ms()
        known = self._premature.get(queue_name, {})
        seen = {
            (one.consumer, one.heartbeat_ms): known.get((one.consumer, one.heartbeat_ms), now_ms)
            for one in late
            if one.overdue_ms < 0
        }
        self._premature[queue_name] = seen
        since_ms = now_ms - self._options.disconnect_grace_ms
        return [one for one in late if seen.get((one.consumer, one.heartbeat_ms), 0) <= since_ms]

    def _disconnected(self, late: list[Late]) -> list[Late]:
        """Those of *late* that the server has no connection of, as far as it can be known."""
        grace_ms = self._options.disconnect_grace_ms
        steady_ms = clock.monotonic_ms() - max(self._presence.since_ms, self._steady_since_ms)
        known = [one for one in late if one.connection_ids]
        if not known or not self._may_list_clients or steady_ms < grace_ms:
            return []
        try:
            alive = self._liveness.connected(frozenset().union(*(k.connection_ids for k in known)))
        except CommandFailed as error:
            self._may_list_clients = False
            self.logger.debug("Disconnected consumers are found by their lease only: %s", error)
            return []
        return [one for one in known if not one.connection_ids & alive]

    def _free(self, queue_name: str, consumer: str, heartbeat_ms: int | None, why: str) -> None:
        freed = self._liveness.release_dead(
            queue_name,
            consumer,
            heartbeat_ms=heartbeat_ms,
            max_deliveries=self._options.max_deliveries,
            lifetimes=self._lifetimes,
        )
        self._events.tell(Event.RECOVERED, queue_name, count=freed.released)
        self._events.tell(Event.POISONED, queue_name, count=freed.dead_lettered)
        if freed.released or freed.dead_lettered:
            self.logger.warning(
                "Consumer %r of queue %r %s. Its messages that are free again: %d; dead letters"
                " now, because they were delivered too often: %d.",
                consumer,
                queue_name,
                why,
                freed.released,
                freed.dead_lettered,
            )


def tend_interval_ms(*, lease_ms: int, disconnect_grace_ms: int) -> float:
    """How often to send a heartbeat, and to look for the dead.

    Often enough to notice a neighbour's end within two seconds and an expired lease soon, and
    several times within the grace. Not in step: processes start together.
    """
    longest_ms = min(MAX_INTERVAL_MS, max(lease_ms / 10, 100), disconnect_grace_ms / 4)
    return longest_ms * random.uniform(0.8, 1.0)
