"""What one idle worker with one queue costs."""

from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.idling import METRICS, idle
from tests.benchmarks.place import Place
from tests.benchmarks.registry import SYSTEMS


def _contestant(name: str) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        return idle(place, name).as_measured()

    return Contestant(SYSTEMS[name].title, name, measure, most_rounds=1)


SCENARIO = Scenario(
    name="idle_commands",
    title="An idle worker with one queue",
    contestants=tuple(
        _contestant(name) for name, system in SYSTEMS.items() if system.server == "redis"
    ),
    metrics=METRICS,
    targets=(Target("requests/s", "StreamsBroker", 2, at_least=False),),
    notes="Over 20 seconds, counted with MONITOR; 1 process with 8 threads.",
)
