"""How late delayed messages start, also beside very many that are not due."""

from dramatiq_streams.keys import queue_keys
from tests.benchmarks.contest import Contestant, Measured, Scenario, Target
from tests.benchmarks.latency import quantiles_ms, send_and_wait, waits_ms
from tests.benchmarks.ledger import LostOrTwice
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.registry import SYSTEMS
from tests.benchmarks.trial import Trial

_PLAN = Plan(count=500, warm_up=10, delay_ms=1_000, spread_ms=2_000)
_BESIDE = "StreamsBroker, 100,000 more waiting"
_WAITING = Plan(count=100_000, how="many", first=1_000_000, delay_ms=3_600_000)


def _contestant(name: str) -> Contestant:
    def measure(place: Place) -> Measured:
        with place.trial(name) as trial, trial.workers():
            trial.warm_up()
            return quantiles_ms(waits_ms(*send_and_wait(trial, _PLAN)))

    return Contestant(SYSTEMS[name].title, name, measure)


def _beside_many(place: Place) -> Measured:
    with place.trial("ours") as trial:
        trial.produce(_WAITING)
        with trial.workers():
            trial.warm_up()
            measured = quantiles_ms(waits_ms(*send_and_wait(trial, _PLAN)))
        _check_waiting(trial)
    return measured


def _check_waiting(trial: Trial) -> None:
    assert trial.server is not None
    keys = queue_keys("dramatiq-streams", trial.queue, ("high", "default", "low"))
    waiting = trial.server.client().zcard(keys.delayed)
    if waiting != _WAITING.count:
        raise LostOrTwice(f"{waiting} of {_WAITING.count} delayed messages are still there")


SCENARIO = Scenario(
    name="delayed",
    title="Delayed messages: lateness of 500 over 2 s",
    contestants=(
        _contestant("ours"),
        Contestant(_BESIDE, "ours", _beside_many),
        *map(_contestant, ("redis", "rabbitmq", "celery")),
    ),
    metrics={"p50 ms": "", "p99 ms": "", "max ms": ""},
    targets=tuple(
        Target(metric, label, limit, at_least=False)
        for label in ("StreamsBroker", _BESIDE)
        for metric, limit in (("p50 ms", 2), ("p99 ms", 8))
    ),
    notes="From the end of the delay to the start; delays of 1 to 3 s; taskiq needs a scheduler.",
)
