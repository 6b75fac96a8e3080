"""Ten thousand messages sent at once to three worker processes."""

from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.latency import send_to_workers
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.registry import SYSTEMS


def _contestant(name: str) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        plan = Plan(count=place.burst, warm_up=50, how="many")
        produced, starts = send_to_workers(place, name, plan, processes=3)
        return {
            "all started, s": starts[-1].at - produced.began,
            "producer, s": produced.ended - produced.began,
        }

    return Contestant(SYSTEMS[name].title, name, measure)


SCENARIO = Scenario(
    name="burst_many",
    title="A burst of 10,000, sent at once, 3 processes",
    contestants=tuple(map(_contestant, ("ours", "redis", "rabbitmq", "taskiq"))),
    metrics={"all started, s": "after the first was sent", "producer, s": ""},
    targets=(Target("all started, s", "StreamsBroker", 2.5, at_least=False),),
    notes="Ours by `enqueue_many`; the others have nothing of the kind, and send one by one.",
)
