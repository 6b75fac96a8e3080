"""How long messages take from before their `send` to their start, while workers wait for them."""

from __future__ import annotations

from collections.abc import Iterable

from tests.benchmarks.ledger import Start
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan, Produced
from tests.benchmarks.spread import quantile
from tests.benchmarks.trial import Trial


def send_to_workers(
    place: Place, name: str, plan: Plan, *, processes: int = 1
) -> tuple[Produced, list[Start]]:
    """What was sent and what started, by workers that are warm and have nothing else to do."""
    with place.trial(name) as trial, trial.workers(processes=processes):
        trial.warm_up(processes)
        return send_and_wait(trial, plan)


def send_and_wait(trial: Trial, plan: Plan) -> tuple[Produced, list[Start]]:
    """Send what *plan* says to the workers that are there, and check it."""
    before = trial.count()
    produced = trial.produce(plan)
    # Looking often would take time from the workers.
    trial.wait_for(before + plan.count + plan.warm_up, interval=0.1)
    return produced, trial.check(produced.numbers)


def waits_ms(produced: Produced, starts: Iterable[Start]) -> list[float]:
    """Milliseconds between `send`, or the end of the delay, and the start, for each message."""
    due = produced.delay_ms
    return [
        (one.at - produced.sent_at[one.number]) * 1000 - due[one.number]
        for one in starts
        if one.number in due
    ]


def quantiles_ms(waits: list[float]) -> dict[str, float]:
    """What tables show of waits."""
    return {
        "p50 ms": quantile(waits, 0.5),
        "p99 ms": quantile(waits, 0.99),
        "max ms": max(waits),
    }
