"""How fast two worker processes empty a full queue."""

from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.drained import drain
from tests.benchmarks.place import Place
from tests.benchmarks.registry import SYSTEMS

_ONE = "StreamsBroker, 1 process"


def _contestant(name: str, *, label: str = "", processes: int = 2) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        return {"messages/s": drain(place, name, processes=processes).rate}

    return Contestant(label or SYSTEMS[name].title, name, measure)


SCENARIO = Scenario(
    name="drain2",
    title="Drain, 2 processes with 8 threads each",
    contestants=(
        _contestant("ours"),
        _contestant("ours", label=_ONE, processes=1),
        *map(_contestant, ("redis", "rabbitmq", "taskiq")),
    ),
    metrics={"messages/s": "from the first start to the last"},
    compared="messages/s",
    targets=(
        Target("messages/s", "StreamsBroker", 2.5, over="RedisBroker"),
        Target("messages/s", "StreamsBroker", 1.3, over=_ONE),
    ),
    notes="By the `dramatiq` and `taskiq` commands; the server has to share the processors.",
)
