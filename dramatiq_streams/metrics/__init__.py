"""Metrics for Prometheus: `Metrics` counts in each worker, one exporter looks at the queues.

Importing this does not import prometheus_client: it decides when it is imported whether several
processes share their metrics, and dramatiq asks for that only when a worker has started.
"""

from dramatiq_streams.metrics.middleware import Metrics

__all__ = ["Metrics"]
