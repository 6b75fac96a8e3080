"""The worker metrics as prometheus_client has them, made once for each registry.

Imported when a worker has started, see the package.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import prometheus_client as prometheus

from .declared import BUCKETS, QUEUE_COUNTERS, WORKER_METRICS, Kind, Metric


class Meters:
    """What `WORKER_METRICS` declares, in one registry."""

    def __init__(self, registry: prometheus.CollectorRegistry) -> None:
        self._made: dict[Metric, Any] = {each: _made(each, registry) for each in WORKER_METRICS}

    def begin(self, queue_name: str) -> None:
        """Have every counter of the queue at 0, unless it has counted."""
        for metric in QUEUE_COUNTERS:
            self.count(metric, queue_name, by=0)

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Add to a counter."""
        self._of(metric, labels).inc(by)

    def observe(self, metric: Metric, *labels: str, seconds: float) -> None:
        """Add to a histogram."""
        self._of(metric, labels).observe(seconds)

    def set(self, metric: Metric, *labels: str, to: float) -> None:
        """Set a gauge."""
        self._of(metric, labels).set(to)

    def _of(self, metric: Metric, labels: tuple[str, ...]) -> Any:
        made = self._made[metric]
        return made.labels(*labels) if labels else made


def meters_in(registry: prometheus.CollectorRegistry | None) -> Meters:
    """The meters of *registry*, by default prometheus_client's own; several brokers share them."""
    found = prometheus.REGISTRY if registry is None else registry
    if found not in _METERS:
        _METERS[found] = Meters(found)
    return _METERS[found]


_METERS: WeakKeyDictionary[prometheus.CollectorRegistry, Meters] = WeakKeyDictionary()


def _made(metric: Metric, registry: prometheus.CollectorRegistry) -> Any:
    declared = (metric.name, metric.help, metric.labels)
    if metric.kind is Kind.COUNTER:
        return prometheus.Counter(*declared, registry=registry)
    if metric.kind is Kind.HISTOGRAM:
        return prometheus.Histogram(*declared, registry=registry, buckets=BUCKETS)
    # Of all processes together the latest.
    return prometheus.Gauge(*declared, registry=registry, multiprocess_mode="livemax")
