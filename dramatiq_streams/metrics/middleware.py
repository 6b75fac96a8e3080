"""What happens in workers, counted: a dramatiq middleware beside dramatiq's own `Prometheus`."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from dramatiq.broker import Broker, MessageProxy
from dramatiq.logging import get_logger
from dramatiq.middleware import Middleware

from .. import clock
from ..events import Event, Events
from ..messages import DeliveredMessage, Entry
from . import declared

if TYPE_CHECKING:
    from .meters import Meters

_COUNTED = {
    Event.RECOVERED: declared.RECOVERED,
    Event.POISONED: declared.POISONED,
    Event.LEASE_LOST: declared.LEASES_LOST,
    Event.SETTLED_TOO_LATE: declared.SETTLED_TOO_LATE,
    Event.FAILED: declared.REDIS_ERRORS,
    Event.DUPLICATE_SKIPPED: declared.DUPLICATES_SKIPPED,
    Event.DEFERRED: declared.DEFERRED,
    Event.KEY_CONFLICT: declared.KEY_CONFLICTS,
    Event.COMPLETED_TOO_LATE: declared.LATE_COMPLETIONS,
    Event.LOCK_SERVER_FAILED: declared.LOCK_SERVER_FAILURES,
}
_COUNTED_WITHOUT_LABEL = {
    Event.RECONNECTED: declared.REDIS_RECONNECTS,
    Event.LOCK_EXTENDED: declared.LOCK_EXTENSIONS,
    Event.LOCK_LOST: declared.LOCKS_LOST,
}


class Metrics(Middleware):
    """Counts what happens in this worker process, for Prometheus.

    With dramatiq's `Prometheus` middleware in the same broker, its server exposes these metrics
    too, those of all worker processes together. Without it they are in *registry*.

    Args:
        registry: A `prometheus_client.CollectorRegistry`. Default: prometheus_client's own.
    """

    def __init__(self, *, registry: Any = None) -> None:
        self.logger = get_logger(__name__, type(self))
        self._registry = registry
        self._meters: Meters | None = None
        self._started_ms: dict[Entry, float] = {}

    def after_process_boot(self, broker: Broker) -> None:
        """Share metrics with the other worker processes, where dramatiq exposes them together."""
        from dramatiq.middleware.prometheus import DB_PATH, Prometheus

        if any(isinstance(each, Prometheus) for each in broker.middleware):
            # As that middleware does, whichever of the two comes first.
            for name in ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"):
                os.environ[name] = DB_PATH
        self._start(broker)

    def before_worker_boot(self, broker: Broker, worker: Any) -> None:
        """Count from now on, also in a worker that no `dramatiq` command has started."""
        self._start(broker)

    def after_declare_queue(self, broker: Broker, queue_name: str) -> None:
        """Begin a queue's counters at 0, so that their first increase is seen."""
        if self._meters is not None:
            self._meters.begin(queue_name)

    def after_worker_shutdown(self, broker: Broker, worker: Any) -> None:
        """Take this process's gauges out of what the processes expose together."""
        directory = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
        if directory and self._meters is not None:
            from prometheus_client import multiprocess

            multiprocess.mark_process_dead(os.getpid(), directory)  # type: ignore[no-untyped-call]

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        """Count the delivery, and how long the message waited for it."""
        if self._meters is None or not isinstance(message, DeliveredMessage):
            return
        labels, entry = (message.queue_name, message.actor_name), message.entry
        self._started_ms[entry] = clock.monotonic_ms()
        self._meters.count(declared.DELIVERIES, *labels)
        if entry.deliveries > 1:
            self._meters.count(declared.REDELIVERIES, *labels)
        if entry.waited_ms is not None:
            self._meters.observe(declared.WAIT, *labels, seconds=entry.waited_ms / 1000)

    def after_process_message(
        self,
        broker: Broker,
        message: MessageProxy,
        *,
        result: Any = None,
        exception: BaseException | None = None,
    ) -> None:
        """Note how long the actor ran, whether it returned or raised."""
        started_ms = self._forget(message)
        if self._meters is not None and started_ms is not None:
            labels = message.queue_name, message.actor_name
            seconds = (clock.monotonic_ms() - started_ms) / 1000
            self._meters.observe(declared.RUN, *labels, seconds=seconds)

    def after_skip_message(self, broker: Broker, message: MessageProxy) -> None:
        """Forget a message whose actor another middleware kept from running."""
        self._forget(message)

    def _forget(self, message: MessageProxy) -> float | None:
        is_ours = isinstance(message, DeliveredMessage)
        return self._started_ms.pop(message.entry, None) if is_ours else None

    def _start(self, broker: Broker) -> None:
        if self._meters is not None:
            return
        from .meters import meters_in

        self._meters = meters_in(self._registry)
        for queue_name in broker.get_declared_queues():
            self._meters.begin(queue_name)
        events = getattr(broker, "events", None)
        if isinstance(events, Events):
            events.listen(self._note)
        else:
            self.logger.warning("%r is no StreamsBroker: little can be counted.", broker)

    def _note(self, event: Event, label: str, amount: float) -> None:
        if self._meters is None:
            return
        if event is Event.FETCHED:
            self._meters.set(declared.LAST_FETCH, label, to=time.time())
        elif event is Event.LOCK_ASKED:
            self._meters.observe(declared.LOCK_ACQUIRE, label, seconds=amount)
            if label == "held":
                self._meters.count(declared.LOCK_CONTENTION)
        elif event in _COUNTED_WITHOUT_LABEL:
            self._meters.count(_COUNTED_WITHOUT_LABEL[event], by=amount)
        else:
            self._meters.count(_COUNTED[event], label, by=amount)
