"""Whose code holds the interpreter's lock while a queue is drained or filled, by py-spy."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from tests.benchmarks.contest import Contestant, Scenario
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.registry import SYSTEMS
from tests.benchmarks.systems.dramatiq_family import DramatiqSystem
from tests.benchmarks.trial import Trial

_OWNERS = ("dramatiq_streams", "dramatiq", "json", "redis", "pika", "benchmarks")
_REST = "rest"
_RATE = "500"


def _draining(name: str) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        with place.trial(name) as trial:
            return _drained(trial, place.messages * 2)

    return Contestant(SYSTEMS[name].title, name, measure, most_rounds=1)


def _filling(place: Place) -> dict[str, float]:
    with place.trial("ours") as trial:
        plan = Plan(count=place.messages * 20, how="many", warm_up=200)
        producing = trial.start_producing(plan)
        stacks = _record(trial, producing.process.pid, until=producing.result)
        with trial.workers(in_process=True):
            trial.wait_for(plan.count + plan.warm_up)
        trial.check(producing.result().numbers)
    return _shares(stacks)


def _drained(trial: Trial, count: int) -> dict[str, float]:
    assert issubclass(trial.system, DramatiqSystem)
    fills_itself = trial.system.server == "none"
    if not fills_itself:
        trial.produce(Plan(count=count, how="many"))
    fill = count if fills_itself else 0
    with trial.workers(in_process=True, barrier=True, fill=fill) as workers:
        trial.let_go()
        trial.wait_for(1)
        until = partial(trial.wait_for, count)
        stacks = _record(trial, workers.process.pid, until=until)
    trial.check(range(count))
    return _shares(stacks)


def _shares(stacks: Iterable[tuple[str, int]]) -> dict[str, float]:
    shares = Counter(dict.fromkeys([*_OWNERS, _REST], 0))
    for owner, samples in stacks:
        shares[owner] += samples
    return {f"{owner} %": samples / shares.total() * 100 for owner, samples in shares.items()}


def _record(trial: Trial, pid: int, *, until: Callable[[], object]) -> list[tuple[str, int]]:
    """Sample the process *pid* until *until* returns."""
    path = trial.directory / "profile"
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or "py-spy"
    options = ["--gil", "--nonblocking", "--full-filenames", "--rate", _RATE, "--format", "raw"]
    command = [program, "record", *options, "--output", str(path), "--pid", str(pid)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as spy:
        try:
            until()
        finally:
            spy.send_signal(signal.SIGINT)  # it writes what it has
    return list(_owners(path.read_text(errors="replace").splitlines()))


def _owners(lines: Iterable[str]) -> Iterable[tuple[str, int]]:
    """Whose code each stack is in: the innermost frame that is somebody's decides."""
    for line in lines:
        stack, _, samples = line.rpartition(" ")
        frames = reversed(stack.split(";"))
        owner = next((own for frame in frames if (own := _owner(frame))), _REST)
        yield owner, int(samples)


def _owner(frame: str) -> str | None:
    folders = frame.replace("\\", "/").split("/")[:-1]
    return next((owner for owner in _OWNERS if owner in folders), None)


SCENARIO = Scenario(
    name="profile",
    title="Whose code runs while a queue is drained, and while many messages are enqueued",
    contestants=(
        *map(_draining, ("ours", "redis", "stub")),
        Contestant("StreamsBroker, enqueue_many", "ours", _filling, most_rounds=1),
    ),
    metrics={f"{owner} %": "" for owner in (*_OWNERS, _REST)},
    notes=(
        "Samples of py-spy of the thread that holds the interpreter's lock: in the worker of "
        "drain1, and in the producer of bulk.\nWhat is called belongs to its caller, if it is not "
        "one of these itself: `dramatiq` includes the standard library's queues that it uses, "
        "`json` is the standard library's, whoever calls it.\n"
        "`benchmarks` is the actor, with the note that it takes of each start, or the loop that "
        "sends."
    ),
)
