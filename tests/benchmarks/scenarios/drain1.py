"""How fast one worker process with eight threads empties a full queue."""

from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.drained import drain
from tests.benchmarks.place import Place
from tests.benchmarks.registry import SYSTEMS


def _contestant(name: str) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        return {"messages/s": drain(place, name).rate}

    return Contestant(SYSTEMS[name].title, name, measure)


SCENARIO = Scenario(
    name="drain1",
    title="Drain, 1 process with 8 threads",
    contestants=tuple(map(_contestant, SYSTEMS)),
    metrics={"messages/s": "from the first start to the last"},
    compared="messages/s",
    targets=(
        Target("messages/s", "StreamsBroker", 3.5, over="RedisBroker"),
        Target("messages/s", "StreamsBroker", 0.75, over="StubBroker (ceiling)"),
    ),
    notes="dramatiq's brokers in a process with a Worker; taskiq and Celery by their commands.",
)
