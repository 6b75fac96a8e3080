"""What the workers of a soak have counted, those that were killed too."""

from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

#: Where they count, in the soak's directory.
METERS = "meters"


def metered(directory: Path) -> dict[str, float]:
    """The counters of all workers together, by name."""
    registry = CollectorRegistry()
    collector = MultiProcessCollector(registry, str(directory / METERS))
    found: dict[str, float] = {}
    for metric in collector.collect():
        for sample in metric.samples:
            if sample.name.startswith("dramatiq_streams_") and sample.name.endswith("_total"):
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found
