"""How fast one producer sends one by one, while nobody reads."""

from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.registry import SYSTEMS
from tests.benchmarks.sending import send_and_check


def _contestant(name: str) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        plan = Plan(count=place.messages // 2, warm_up=200)
        return {"messages/s": send_and_check(place, name, plan).rate}

    return Contestant(SYSTEMS[name].title, name, measure)


SCENARIO = Scenario(
    name="enqueue",
    title="Enqueue one by one",
    contestants=tuple(
        _contestant(name) for name, system in SYSTEMS.items() if system.server != "none"
    ),
    metrics={"messages/s": "of one producer in one thread"},
    compared="messages/s",
    targets=(Target("messages/s", "StreamsBroker", 1.6, over="RedisBroker"),),
    notes="One process, one thread; all messages are run afterwards, and checked.",
)
