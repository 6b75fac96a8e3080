"""How much a message asks of the server when everything is busy."""

from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.drained import drain, server_counters
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.registry import SYSTEMS

_COUNTERS = {
    "round_trips": "round trips",
    "commands": "calls",
    "bytes_in": "bytes in",
    "bytes_out": "bytes out",
}


def _contestant(name: str) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        drained = drain(place, name)
        worker = {key: value / drained.messages for key, value in drained.server.items()}
        producer = _sending(place, name)
        return {
            f"{title}, {side}": costs[key]
            for side, costs in (("worker", worker), ("producer", producer))
            for key, title in _COUNTERS.items()
        }

    return Contestant(SYSTEMS[name].title, name, measure, most_rounds=1)


def _sending(place: Place, name: str) -> dict[str, float]:
    count = place.messages // 4
    with place.trial(name) as trial:
        before = server_counters(trial)
        produced = trial.produce(Plan(count=count))
        after = server_counters(trial)
        with trial.workers():
            trial.wait_for(count)
        trial.check(produced.numbers)
    return {key: (after[key] - before[key]) / count for key in after}


SCENARIO = Scenario(
    name="commands",
    title="Redis: round trips, calls and bytes per message",
    contestants=tuple(
        _contestant(name) for name, system in SYSTEMS.items() if system.server == "redis"
    ),
    metrics={
        f"{title}, {side}": "" for side in ("worker", "producer") for title in _COUNTERS.values()
    },
    targets=(Target("round trips, worker", "StreamsBroker", 0.5, at_least=False),),
    notes=(
        "Round trips are what the server reads (`total_reads_processed`); calls include those "
        "within scripts (`commandstats`).\nWorker: draining, as in drain1; producer: sending one "
        "by one."
    ),
)
