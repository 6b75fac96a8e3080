"""How long a high message waits while long tasks of a low lane keep every thread at work."""

from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.latency import quantiles_ms, waits_ms
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.trial import THREADS

_TASK_MS = 50
_GAP = (0.03, 0.07)
_FIRST_LOW = 1_000_000
_VARIED = "StreamsBroker, tasks of 40 to 60 ms"
_EXACT = "StreamsBroker, tasks of exactly 50 ms"


def _contestant(label: str, spread_ms: int) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        return _measure(place, spread_ms)

    return Contestant(label, "ours", measure, most_rounds=3)


def _measure(place: Place, spread_ms: int) -> dict[str, float]:
    count = 60 if place.is_quick else 200
    high = Plan(count=count, warm_up=5, gap=_GAP, lane="high")
    # Half as long again as the high messages take, and what starts before them.
    enough = int(1.5 * count * sum(_GAP) / 2 * 1000 / _TASK_MS * THREADS) + 500
    low = Plan(
        count=enough,
        how="many",
        first=_FIRST_LOW,
        lane="low",
        task_ms=_TASK_MS,
        task_spread_ms=spread_ms,
    )
    with place.trial("ours") as trial:
        trial.produce(low)
        with trial.workers():
            trial.wait_for(50)
            produced = trial.produce(high)
            trial.wait_for(count + enough + high.warm_up)
        starts = trial.check({*produced.numbers, *range(_FIRST_LOW, _FIRST_LOW + enough)})
    assert starts[-1].at > produced.ended + 0.5, "the low lane was not full until the end"
    return quantiles_ms(waits_ms(produced, starts))


SCENARIO = Scenario(
    name="high_lane",
    title="A high message while 50 ms tasks of the low lane keep 8 threads at work",
    contestants=(_contestant(_VARIED, 10), _contestant(_EXACT, 0)),
    metrics={"p50 ms": "", "p99 ms": "", "max ms": ""},
    targets=tuple(
        Target("p99 ms", label, _TASK_MS / THREADS + 15, at_least=False)
        for label in (_VARIED, _EXACT)
    ),
    notes="200 high messages, 30 to 70 ms apart; from send to start.\n"
    "If threads came free independently of each other, one high message in a hundred would wait for"
    " 29 ms: 50 / 8 times the natural logarithm of 100.",
)
