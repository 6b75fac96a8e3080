"""What one idle worker with fifty queues costs."""

from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.idling import METRICS, idle
from tests.benchmarks.place import Place
from tests.benchmarks.registry import SYSTEMS

_QUEUES = 50


def _contestant(name: str) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        return idle(place, name, queues=_QUEUES).as_measured()

    return Contestant(SYSTEMS[name].title, name, measure, most_rounds=1)


SCENARIO = Scenario(
    name="queues50",
    title="An idle worker with fifty queues",
    contestants=tuple(map(_contestant, ("ours", "redis"))),
    metrics=METRICS,
    targets=(
        Target("requests/s", "StreamsBroker", 2 * _QUEUES, at_least=False),
        Target("threads", "StreamsBroker", 3 * _QUEUES, at_least=False),
        Target("connections", "StreamsBroker", 3 * _QUEUES, at_least=False),
    ),
    notes="Over 20 seconds, counted with MONITOR; 1 process with 8 threads.",
)
