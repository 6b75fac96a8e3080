"""What one thread of each worker process does: keeps its leases, and looks after its queues."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping

from .checks import log_findings
from .connections import Connections
from .dead_letters import DeadLetters
from .executor import Executor, Presence
from .leases import Leases, extend_interval_ms
from .lifetimes import Lifetimes
from .liveness import Liveness
from .maintenance import Duty, Maintenance
from .options import BrokerOptions
from .outages import Outages
from .registry import Registration, Registry
from .reservations import Reservations
from .scope import Scope
from .settlement import Settlement
from .watch import Watch, tend_interval_ms

#: How often dead letters and unique keys are looked through for old ones.
EXPIRE_INTERVAL_MS = 60_000.0

#: How often the queues that are read here are written to the registry.
REGISTER_INTERVAL_MS = 60_000.0


class Caretaker:
    """Takes care of the queues in *settlements*, on a connection of its own.

    Args:
        readers: The connections that queues are read on, by queue.
    """

    def __init__(
        self,
        connections: Connections,
        options: BrokerOptions,
        scope: Scope,
        *,
        lifetimes: Lifetimes,
        settlements: Mapping[str, Settlement],
        readers: Mapping[str, Presence],
        outages: Outages,
    ) -> None:
        self._connections = connections
        self._options = options
        self._scope = scope
        self._lifetimes = lifetimes
        self._settlements = settlements
        self._readers = readers
        self._outages = outages
        self._executor = connections.dedicated()
        self._starting = threading.Lock()
        self._maintenance: Maintenance | None = None

    def start(self) -> None:
        """Start the thread, unless it runs."""
        with self._starting:
            if self._maintenance is None:
                self._maintenance = Maintenance(self._duties(), self._outages)
                self._maintenance.start()

    def stop(self, *, wait: bool = True) -> None:
        """Stop the thread; *wait* a little for what it is doing."""
        with self._starting:
            maintenance, self._maintenance = self._maintenance, None
        if maintenance is not None:
            maintenance.stop(wait=wait)

    def enter(self, queue_name: str, executor: Executor) -> None:
        """Send a first heartbeat on *executor*, before anything is delivered on it."""
        self._watch(executor).register(queue_name)

    def leave(self, queue_name: str) -> None:
        """Forget this consumer of the queue, if it holds nothing."""
        self._watch(self._executor).leave(queue_name)

    def close(self) -> None:
        """Disconnect."""
        self._executor.close()

    def registration(self, queue_name: str) -> Registration:
        """What operators are told of a queue."""
        return Registration(queue_name, self._options.lanes.names, self._options.lease_ms)

    def _duties(self) -> list[Duty]:
        leases = Leases(self._executor, self._scope)
        watch = self._watch(self._executor)
        letters = DeadLetters(self._executor, self._scope, lifetimes=self._lifetimes)
        lease_ms, grace_ms = self._options.lease_ms, self._options.disconnect_grace_ms
        # In this order: a recovery must find our own leases extended.
        return [
            Duty(
                "extend leases", lambda: self._extend(leases), lambda: extend_interval_ms(lease_ms)
            ),
            Duty(
                "watch over the workers",
                lambda: self._tend(watch),
                lambda: tend_interval_ms(lease_ms=lease_ms, disconnect_grace_ms=grace_ms),
            ),
            Duty("expire dead letters", lambda: self._expire(letters), lambda: EXPIRE_INTERVAL_MS),
            Duty("expire unique keys", self._expire_unique, lambda: EXPIRE_INTERVAL_MS),
            Duty("register queues", self._register, lambda: REGISTER_INTERVAL_MS),
            Duty("check the server's settings", self._log_findings, lambda: math.inf),
        ]

    def _watch(self, executor: Executor) -> Watch:
        return Watch(
            Liveness(executor, self._scope),
            self._options,
            lifetimes=self._lifetimes,
            consumer=self._scope.consumer,
            presence=executor.presence,
            readers=self._readers_of,
            condition=lambda queue_name: self._settlements[queue_name].holdings.condition(),
            events=self._connections.events,
        )

    def _readers_of(self, queue_name: str) -> Iterable[Presence]:
        presence = self._readers.get(queue_name)
        return () if presence is None else (presence,)

    def _extend(self, leases: Leases) -> None:
        for queue_name, settlement in list(self._settlements.items()):
            settlement.lose(leases.extend(queue_name, settlement.holdings.held()))

    def _tend(self, watch: Watch) -> None:
        for queue_name in list(self._settlements):
            watch.tend(queue_name)

    def _expire(self, letters: DeadLetters) -> None:
        for queue_name in list(self._settlements):
            letters.expire(queue_name)

    def _expire_unique(self) -> None:
        reservations = Reservations(self._executor, self._scope)
        for queue_name in list(self._settlements):
            reservations.expire(queue_name)

    def _register(self) -> None:
        # Again and again: the server may have lost it.
        registry = Registry(self._executor, self._options.namespace)
        registry.note(map(self.registration, list(self._settlements)))

    def _log_findings(self) -> None:
        log_findings(self._executor, may_ask_config=self._connections.is_default_user)
