"""The queues of a namespace as gauges: looked at when Prometheus asks, in one pipelined call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from dramatiq.errors import BrokerConnectionError
from dramatiq.logging import get_logger
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ..errors import StreamsError
from ..executor import Executor
from ..inspector import Inspector, LaneState, QueueState
from ..registry import Registry
from . import declared
from .declared import Metric

_OF_LANES: Sequence[tuple[Metric, Callable[[LaneState], float]]] = (
    (declared.READY, lambda lane: lane.ready),
    (declared.PENDING, lambda lane: lane.pending),
    (declared.OLDEST_READY, lambda lane: _seconds(lane.oldest_ready_age_ms)),
    (declared.OLDEST_PENDING, lambda lane: _seconds(lane.oldest_pending_age_ms)),
)
_OF_QUEUES: Sequence[tuple[Metric, Callable[[QueueState], float]]] = (
    (declared.DELAYED, lambda queue: queue.delayed),
    (declared.DEAD, lambda queue: queue.dead),
    (declared.OLDEST_DEAD, lambda queue: _seconds(queue.oldest_dead_age_ms)),
    (declared.PAUSED, lambda queue: queue.paused_for_ms is not None),
    (declared.WORKERS, lambda queue: queue.consumers),
)


class QueueCollector(Collector):
    """Collects all queues of *namespace*; register one with the registry of one exporter."""

    def __init__(self, executor: Executor, namespace: str) -> None:
        self.logger = get_logger(__name__, type(self))
        self._inspector = Inspector(executor, namespace)
        self._registry = Registry(executor, namespace)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """What there will be, without looking: registering connects to nothing."""
        return [_family(metric) for metric in declared.QUEUE_METRICS]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Look at the queues now; when the server does not answer, there is only `up`."""
        try:
            queues = self._inspector.queues(self._registry.queues())
        except (BrokerConnectionError, StreamsError) as error:
            self.logger.warning("The queues cannot be looked at: %s", error)
            yield _single(declared.UP, 0)
            return
        yield _single(declared.UP, 1)
        for metric, of_lane in _OF_LANES:
            family = _family(metric)
            for queue in queues:
                for lane in queue.lanes:
                    family.add_metric([queue.queue, lane.lane], of_lane(lane))
            yield family
        for metric, of_queue in _OF_QUEUES:
            family = _family(metric)
            for queue in queues:
                family.add_metric([queue.queue], of_queue(queue))
            yield family


def _family(metric: Metric) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)


def _single(metric: Metric, value: float) -> GaugeMetricFamily:
    family = _family(metric)
    family.add_metric([], value)
    return family


def _seconds(milliseconds: int | None) -> float:
    return (milliseconds or 0) / 1000
