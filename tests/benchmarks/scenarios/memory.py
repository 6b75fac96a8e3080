"""How much memory of the server queued messages take."""

from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.registry import SYSTEMS

_METRIC = "MB per 100,000"


def _contestant(name: str) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        count = 10_000 if place.is_quick else 100_000
        with place.trial(name) as trial:
            assert trial.server is not None
            client = trial.server.client()
            before = client.info("memory")["used_memory"]
            trial.produce(Plan(count=count, how="many"))
            after = client.info("memory")["used_memory"]
            with trial.workers():
                trial.wait_for(count, timeout=300, interval=0.5)
            trial.check(range(count))
        return {_METRIC: (after - before) / 2**20 / count * 100_000}

    return Contestant(SYSTEMS[name].title, name, measure, most_rounds=1)


SCENARIO = Scenario(
    name="memory",
    title="Redis memory for 100,000 queued messages",
    contestants=tuple(map(_contestant, ("ours", "redis"))),
    metrics={_METRIC: "growth of used_memory"},
    compared=_METRIC,
    targets=(Target(_METRIC, "StreamsBroker", 0.6, over="RedisBroker", at_least=False),),
    notes="The growth of `used_memory`; an idle worker's own memory is with its commands.",
)
