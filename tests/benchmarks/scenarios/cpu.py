"""What a message costs in CPU time, on every side."""

from tests.benchmarks.contest import Contestant, Scenario
from tests.benchmarks.drained import drain, server_cpu
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.registry import SYSTEMS

_MICRO = 1_000_000


def _contestant(name: str) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        drained = drain(place, name)
        measured = {"worker": drained.worker_cpu / drained.messages * _MICRO}
        if SYSTEMS[name].server == "redis":
            measured["server, for the worker"] = drained.server_cpu / drained.messages * _MICRO
        if SYSTEMS[name].server != "none":
            measured.update(_sending(place, name))
        return measured

    return Contestant(SYSTEMS[name].title, name, measure, most_rounds=2)


def _sending(place: Place, name: str) -> dict[str, float]:
    count = place.messages // 4
    with place.trial(name) as trial:
        before = server_cpu(trial)
        produced = trial.produce(Plan(count=count))
        after = server_cpu(trial)
        with trial.workers():
            trial.wait_for(count)
        trial.check(produced.numbers)
    measured = {"producer": produced.cpu / count * _MICRO}
    if trial.server is not None:
        measured["server, for the producer"] = (after - before) / count * _MICRO
    return measured


SCENARIO = Scenario(
    name="cpu",
    title="CPU time per message, in microseconds",
    contestants=tuple(map(_contestant, SYSTEMS)),
    metrics={
        "worker": "",
        "server, for the worker": "",
        "producer": "",
        "server, for the producer": "",
    },
    compared="worker",
    notes="Draining as in drain1; sending one by one.\nRabbitMQ's own is not measured.",
)
