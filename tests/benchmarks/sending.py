"""Sending without a worker, and the check afterwards that each message can be run."""

from __future__ import annotations

from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan, Produced
from tests.benchmarks.systems.dramatiq_family import DramatiqSystem


def send_and_check(place: Place, name: str, plan: Plan) -> Produced:
    """What a producer that follows *plan* takes."""
    with place.trial(name) as trial:
        produced = trial.produce(plan)
        with trial.workers(in_process=issubclass(trial.system, DramatiqSystem)):
            trial.wait_for(plan.count + plan.warm_up)
        trial.check(produced.numbers)
    return produced
