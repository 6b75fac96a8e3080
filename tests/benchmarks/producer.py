"""One producer process: sends what a plan says, and reports when it sent what.

`python -m tests.benchmarks.producer RESULT PLAN`, the plan as JSON.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Plan:
    """What one producer sends.

    Args:
        how: One by one, or in the fastest way that the system has.
        first: The number of the first message; the others follow.
        warm_up: Messages with negative numbers that are sent before, to warm up everything.
        gap: Seconds to wait before each message, at random between these two.
        spread_ms: Delays, evenly spread from `delay_ms` to `delay_ms + spread_ms`.
        task_spread_ms: Tasks take `task_ms`, more or less so much, at random.
    """

    count: int
    how: Literal["each", "many"] = "each"
    first: int = 0
    warm_up: int = 0
    gap: tuple[float, float] = (0.0, 0.0)
    delay_ms: int | None = None
    spread_ms: int = 0
    lane: str | None = None
    task_ms: int = 0
    task_spread_ms: int = 0

    def to_json(self) -> str:
        """This plan, for the producer's command line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Produced:
    """What one producer did, on the monotonic clock: by number, when, and for how long."""

    began: float
    ended: float
    cpu: float
    sent_at: dict[int, float]
    delay_ms: dict[int, int]

    @property
    def rate(self) -> float:
        """Messages per second."""
        return len(self.sent_at) / (self.ended - self.began)

    @property
    def numbers(self) -> set[int]:
        """All that were sent, but those for warming up."""
        return set(self.sent_at)

    @classmethod
    def read(cls, path: Path) -> Produced:
        """What a producer has written to *path*."""
        told: dict[str, Any] = json.loads(path.read_text())
        first, times = told["first"], told["sent_at"]
        delays = {first + index: delay for index, delay in enumerate(told["delay_ms"])}
        sent_at = {first + index: at for index, at in enumerate(times)}
        return cls(told["began"], told["ended"], told["cpu"], sent_at, delays)


def _task_ms(plan: Plan) -> int:
    return plan.task_ms + random.randint(-plan.task_spread_ms, plan.task_spread_ms)


def main(result: Path, plan: Plan) -> None:
    """Send what *plan* says and write *result* when all is sent."""
    from tests.benchmarks.app import system
    from tests.benchmarks.systems.interface import Send

    sends = [
        Send(number, wait, delay_ms, plan.lane, _task_ms(plan))
        for number, wait, delay_ms in _schedule(plan)
    ]
    sent_at = array("d")
    system.send_each([Send(-1 - number) for number in range(plan.warm_up)], array("d"))
    cpu, began = time.process_time(), time.monotonic()
    if plan.how == "each":
        system.send_each(sends, sent_at)
    else:
        system.send_many(sends)
        sent_at.extend([began] * plan.count)
    ended, cpu = time.monotonic(), time.process_time() - cpu
    system.close()
    told = {
        "first": plan.first,
        "began": began,
        "ended": ended,
        "cpu": cpu,
        "sent_at": sent_at.tolist(),
        "delay_ms": [one.delay_ms or 0 for one in sends],
    }
    partial = result.with_suffix(".partial")
    partial.write_text(json.dumps(told))
    os.replace(partial, result)


def _schedule(plan: Plan) -> Iterator[tuple[int, float, int | None]]:
    """Number, wait and delay of each message; the same in each run, for each system."""
    chance = random.Random(1)
    for index in range(plan.count):
        wait = chance.uniform(*plan.gap)
        delay_ms = plan.delay_ms
        if delay_ms is not None:
            delay_ms += index * plan.spread_ms // plan.count
        yield plan.first + index, wait, delay_ms


if __name__ == "__main__":
    main(Path(sys.argv[1]), Plan(**json.loads(sys.argv[2])))
