"""Every metric there is, declared once: name, kind, labels, help text (pure).

Durations are in seconds, sizes in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: Seconds. Messages wait for milliseconds or for a night; actors run as long.
BUCKETS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0),
)


class Kind(StrEnum):
    """What Prometheus makes of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. Of a counter the exposed name ends in `_total`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    @property
    def exposed_name(self) -> str:
        """The name that queries use; a histogram has `_bucket`, `_sum` and `_count` behind it."""
        return f"{self.name}_total" if self.kind is Kind.COUNTER else self.name


_QUEUE = ("queue_name",)
_ACTOR = ("queue_name", "actor_name")
_LANE = ("queue_name", "lane")


def _counter(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(f"dramatiq_streams_{name}", Kind.COUNTER, labels, text)


def _gauge(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(f"dramatiq_streams_{name}", Kind.GAUGE, labels, text)


def _histogram(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(f"dramatiq_streams_{name}", Kind.HISTOGRAM, labels, text)


# Of workers, counted by `Metrics`.

WAIT = _histogram(
    "wait_seconds",
    _ACTOR,
    "Time from when a message entered its lane to its delivery, by the server's clock.",
)
RUN = _histogram("run_seconds", _ACTOR, "Time that an actor ran for.")
DELIVERIES = _counter("deliveries", _ACTOR, "Messages handed to a worker thread.")
REDELIVERIES = _counter(
    "redeliveries", _ACTOR, "Messages handed to a worker thread that had been delivered before."
)
RECOVERED = _counter("recovered", _QUEUE, "Messages taken back from dead workers.")
POISONED = _counter(
    "poisoned", _QUEUE, "Messages dead-lettered because their workers died max_deliveries times."
)
LEASES_LOST = _counter(
    "leases_lost", _QUEUE, "Messages whose lease this worker lost while it held them."
)
SETTLED_TOO_LATE = _counter(
    "ack_after_lease_lost",
    _QUEUE,
    "Messages acknowledged, rejected or retried after their lease was lost, in vain.",
)
REDIS_ERRORS = _counter(
    "redis_errors", ("error",), "Commands that failed, by the class of the error."
)
REDIS_RECONNECTS = _counter("redis_reconnects", (), "Connections made after one had failed.")
DUPLICATES_SKIPPED = _counter(
    "duplicates_skipped", _QUEUE, "Messages not run: their idempotency key is done, or at work."
)
DEFERRED = _counter(
    "deferred", _QUEUE, "Messages put off: their idempotency key is at work, or not available."
)
KEY_CONFLICTS = _counter(
    "key_conflicts", _QUEUE, "Messages dead-lettered for having another message's idempotency key."
)
LATE_COMPLETIONS = _counter(
    "late_completions", _QUEUE, "Completions refused because a newer fencing token had been given."
)
LOCK_ACQUIRE = _histogram(
    "lock_acquire_seconds",
    ("outcome",),
    "Time that an attempt to take a lock took: acquired, held by somebody else, or unavailable.",
)
LOCK_CONTENTION = _counter("lock_contention", (), "Locks that somebody else held.")
LOCK_EXTENSIONS = _counter("lock_extensions", (), "Locks extended for another lease.")
LOCKS_LOST = _counter(
    "locks_lost", (), "Locks that could not be extended while their message was at work."
)
LOCK_SERVER_FAILURES = _counter(
    "lock_server_failures",
    ("server",),
    "Commands that a lock server refused, or did not answer in time.",
)
LAST_FETCH = _gauge(
    "last_fetch_timestamp_seconds",
    _QUEUE,
    "When the server last answered a read of any worker process here; its age is time() minus it.",
)

WORKER_METRICS = (
    WAIT,
    RUN,
    DELIVERIES,
    REDELIVERIES,
    RECOVERED,
    POISONED,
    LEASES_LOST,
    SETTLED_TOO_LATE,
    REDIS_ERRORS,
    REDIS_RECONNECTS,
    DUPLICATES_SKIPPED,
    DEFERRED,
    KEY_CONFLICTS,
    LATE_COMPLETIONS,
    LOCK_ACQUIRE,
    LOCK_CONTENTION,
    LOCK_EXTENSIONS,
    LOCKS_LOST,
    LOCK_SERVER_FAILURES,
    LAST_FETCH,
)

#: Of each queue, what is 0 until it first happens: Prometheus sees no increase without a 0 before.
QUEUE_COUNTERS = tuple(
    each for each in WORKER_METRICS if each.kind is Kind.COUNTER and each.labels == _QUEUE
)

# Of queues, read by `QueueCollector`.

READY = _gauge("ready_messages", _LANE, "Messages that wait to be delivered.")
PENDING = _gauge("pending_messages", _LANE, "Messages delivered and not settled.")
OLDEST_READY = _gauge(
    "oldest_ready_age_seconds",
    _LANE,
    "How long the oldest waiting message has been in its lane; 0 when none waits.",
)
OLDEST_PENDING = _gauge(
    "oldest_pending_age_seconds",
    _LANE,
    "How long the oldest message that a worker holds has been in its lane; 0 when there is none.",
)
DELAYED = _gauge("delayed_messages", _QUEUE, "Messages that are not due yet.")
DEAD = _gauge("dead_messages", _QUEUE, "Dead letters.")
OLDEST_DEAD = _gauge(
    "oldest_dead_age_seconds", _QUEUE, "Age of the oldest dead letter; 0 when there is none."
)
PAUSED = _gauge("paused", _QUEUE, "1 when the queue is paused, 0 otherwise.")
WORKERS = _gauge("worker_processes", _QUEUE, "Worker processes alive on the queue.")
UP = _gauge("up", (), "1 when the queues could be looked at, 0 when the server did not answer.")

QUEUE_METRICS = (
    READY,
    PENDING,
    OLDEST_READY,
    OLDEST_PENDING,
    DELAYED,
    DEAD,
    OLDEST_DEAD,
    PAUSED,
    WORKERS,
    UP,
)
