"""The reference lists the metrics that are declared, and the how-to uses no other."""

import re

import pytest

from dramatiq_streams.metrics import declared
from dramatiq_streams.metrics.declared import Metric
from tests.docs.pages import code_names, page

REFERENCE = "docs/reference/metrics.md"
HOW_TO = "docs/how-to/watch-with-prometheus.md"
ALL = (*declared.WORKER_METRICS, *declared.QUEUE_METRICS)


@pytest.mark.parametrize(
    ("heading", "metrics"),
    [("Of workers", declared.WORKER_METRICS), ("Of queues", declared.QUEUE_METRICS)],
)
def test_metrics_are_documented_as_they_are_declared(
    heading: str, metrics: tuple[Metric, ...]
) -> None:
    _, *rows = page(REFERENCE).rows(heading)

    assert rows == [
        [
            f"`{metric.exposed_name}`",
            str(metric.kind),
            ", ".join(f"`{label}`" for label in metric.labels),
            metric.help,
        ]
        for metric in metrics
    ]


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_metrics_are_named_as_prometheus_wants_them(metric: Metric) -> None:
    assert re.fullmatch(r"dramatiq_streams_[a-z_]+", metric.name)
    assert not metric.name.endswith("_total")
    assert metric.help.endswith(".")
    if "age" in metric.name.split("_") or metric.kind == declared.Kind.HISTOGRAM:
        assert metric.name.endswith("_seconds")


def test_alerts_use_metrics_that_there_are() -> None:
    used = set(re.findall(r"dramatiq_streams_\w+", " ".join(code_names(page(HOW_TO).text))))

    assert used <= {metric.exposed_name for metric in ALL}
    assert used
