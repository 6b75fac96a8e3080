"""Ten thousand messages sent one by one to three worker processes."""

from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.latency import quantiles_ms, send_to_workers, waits_ms
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.registry import SYSTEMS


def _contestant(name: str) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        plan = Plan(count=place.burst, warm_up=50)
        produced, starts = send_to_workers(place, name, plan, processes=3)
        return {
            **quantiles_ms(waits_ms(produced, starts)),
            "last start after last send, ms": (starts[-1].at - produced.ended) * 1000,
            "producer, s": produced.ended - produced.began,
        }

    return Contestant(SYSTEMS[name].title, name, measure)


SCENARIO = Scenario(
    name="burst",
    title="A burst of 10,000, sent one by one, 3 processes",
    contestants=tuple(map(_contestant, ("ours", "redis", "rabbitmq", "taskiq"))),
    metrics={
        "p50 ms": "",
        "p99 ms": "",
        "max ms": "",
        "last start after last send, ms": "",
        "producer, s": "",
    },
    targets=(
        Target("p99 ms", "StreamsBroker", 20, at_least=False),
        Target("last start after last send, ms", "StreamsBroker", 50, at_least=False),
    ),
    notes="3 processes with 8 threads each, by each system's own command.",
)
