"""How soon the messages of a dead worker start elsewhere."""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence

import psutil

from tests.benchmarks.contest import Contestant, Scenario
from tests.benchmarks.ledger import LostOrTwice
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.registry import SYSTEMS
from tests.benchmarks.trial import THREADS, Trial

_AFTER = "restarted after, s"
_NOT_WITHIN = "not within, s"
#: For how long a task runs: until everybody is killed.
_TASK_MS = 600_000
#: Seconds that the other worker has been there for, when the first one dies: longer than it takes
#: until it may judge others by their connections.
_SETTLE, _LONG_SETTLE = 2.0, 12.0
_PATIENCE, _QUICK_PATIENCE = 90.0, 15.0


def _contestant(
    label: str,
    name: str,
    end: Callable[[psutil.Process], None],
    *,
    settle: float = _SETTLE,
    wrapper: Sequence[str] = (),
    most_rounds: int = 2,
) -> Contestant:
    def measure(place: Place) -> dict[str, float]:
        patience = _QUICK_PATIENCE if place.is_quick else _PATIENCE
        with place.trial(name) as trial:
            return _measure(trial, end, patience, settle=settle, wrapper=wrapper)

    return Contestant(label, name, measure, most_rounds=most_rounds)


def _measure(
    trial: Trial,
    end: Callable[[psutil.Process], None],
    patience: float,
    *,
    settle: float,
    wrapper: Sequence[str],
) -> dict[str, float]:
    with trial.workers(in_process=True, wrapper=wrapper) as victims:
        trial.warm_up()
        before = trial.count()
        produced = trial.produce(Plan(count=THREADS, task_ms=_TASK_MS))
        trial.wait_for(before + THREADS)
        with trial.workers(in_process=True, barrier=True) as heirs:
            trial.let_go()
            time.sleep(settle)
            ended_at = time.monotonic()
            (victim,) = [one for one in victims.tree() if _is_python(one)]
            end(victim)
            try:
                trial.wait_for(before + 2 * THREADS, timeout=patience)
            except AssertionError:
                return {_NOT_WITHIN: patience}
            finally:
                _kill(victim)
                heirs.process.kill()
    again = [one for one in trial.starts() if one.at > ended_at]
    if sorted(one.number for one in again) != sorted(produced.numbers):
        raise LostOrTwice(f"{len(again)} starts after the end of the worker of {THREADS} messages")
    return {_AFTER: max(one.at for one in again) - ended_at}


def _is_python(process: psutil.Process) -> bool:
    return process.name().startswith("python")


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def _stop(process: psutil.Process) -> None:
    os.kill(process.pid, signal.SIGSTOP)


def _elsewhere() -> list[str]:
    """Another pid namespace: for our workers another host, as another container is."""
    program = shutil.which("unshare")
    return [program, "--pid", "--fork", "--kill-child", "--mount-proc"] if program else []


SCENARIO = Scenario(
    name="recovery",
    title="A worker is killed (kill -9) with 8 messages at work",
    contestants=(
        _contestant("StreamsBroker, same host", "ours", _kill),
        _contestant(
            "StreamsBroker, another host", "ours", _kill, settle=_LONG_SETTLE, wrapper=_elsewhere()
        ),
        _contestant("StreamsBroker, stopped: its lease", "ours", _stop, most_rounds=1),
        _contestant(SYSTEMS["redis"].title, "redis", _kill, most_rounds=1),
        _contestant(SYSTEMS["rabbitmq"].title, "rabbitmq", _kill),
    ),
    metrics={_AFTER: "the last of the 8", _NOT_WITHIN: "given up on then"},
    notes=(
        "Another idle worker is there.\n"
        "Another host is another pid namespace (`unshare --pid`).\n"
        "A stopped process (SIGSTOP) keeps its connections: only its lease tells."
    ),
)
