"""How soon a message starts when the worker has nothing else to do."""

from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.latency import quantiles_ms, send_to_workers, waits_ms
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.registry import SYSTEMS


def _contestant(name: str) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        plan = Plan(count=100 if place.is_quick else 300, warm_up=10, gap=(0.02, 0.08))
        return quantiles_ms(waits_ms(*send_to_workers(place, name, plan)))

    return Contestant(SYSTEMS[name].title, name, measure)


SCENARIO = Scenario(
    name="idle_latency",
    title="From send to start, idle",
    contestants=tuple(
        _contestant(name) for name, system in SYSTEMS.items() if system.server != "none"
    ),
    metrics={"p50 ms": "", "p99 ms": "", "max ms": ""},
    targets=(
        Target("p50 ms", "StreamsBroker", 2, at_least=False),
        Target("p99 ms", "StreamsBroker", 5, at_least=False),
    ),
    notes="300 messages, 20 to 80 ms apart; each worker is its own command, 1 process, 8 threads.",
)
