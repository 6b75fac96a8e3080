"""Who is measured, what has to come out, and the order: every contestant once in every round."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.benchmarks.place import Place
from tests.benchmarks.spread import Spread

Measured = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Contestant:
    """One row of a scenario's table.

    Args:
        system: The name of the system that has to be there.
        most_rounds: It is measured in no more rounds than these; None for all.
    """

    label: str
    system: str
    measure: Callable[[Place], Measured]
    most_rounds: int | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """What has to come out for *metric*, in the median over the rounds.

    Args:
        of: The contestant's label.
        limit: Of its value, or of the ratio if *over* names another contestant.
        at_least: The limit is the least; otherwise the most.
    """

    metric: str
    of: str
    limit: float
    over: str | None = None
    at_least: bool = True


@dataclass(frozen=True, slots=True)
class Scenario:
    """One question, and how it is answered.

    Args:
        metrics: Unit or explanation of each metric, in the order of the table.
        compared: The metric whose ratios to *reference* are printed for each contestant.
        notes: How it is measured, for whoever reads the table.
    """

    name: str
    title: str
    contestants: tuple[Contestant, ...]
    metrics: Mapping[str, str]
    compared: str | None = None
    reference: str = "StreamsBroker"
    targets: tuple[Target, ...] = ()
    notes: str = ""


@dataclass(slots=True)
class Outcome:
    """All that was measured of one scenario: by contestant and round."""

    scenario: Scenario
    rounds: dict[str, dict[int, Measured]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def values(self, label: str, metric: str) -> dict[int, float]:
        """The values by round, where there are some."""
        found = self.rounds.get(label, {})
        return {number: one[metric] for number, one in found.items() if metric in one}

    def spread(self, label: str, metric: str) -> Spread | None:
        """Median and spread over the rounds."""
        values = list(self.values(label, metric).values())
        return Spread.of(values) if values else None

    def ratio(self, metric: str, of: str, over: str) -> Spread | None:
        """Median and spread of the ratios within each round."""
        above, below = self.values(of, metric), self.values(over, metric)
        ratios = [above[one] / below[one] for one in above if below.get(one)]
        return Spread.of(ratios) if ratios else None

    def judge(self, target: Target) -> tuple[Spread, bool] | None:
        """What came out for *target*, and whether that is enough; None if nothing was measured."""
        if target.over is None:
            found = self.spread(target.of, target.metric)
        else:
            found = self.ratio(target.metric, target.of, target.over)
        if found is None:
            return None
        enough = found.median >= target.limit if target.at_least else found.median <= target.limit
        return found, enough


def hold(scenario: Scenario, place: Place, *, rounds: int, tell: Callable[[str], None]) -> Outcome:
    """Measure every contestant of *scenario* in every round, each round in another order."""
    outcome = Outcome(scenario)
    able = []
    for one in scenario.contestants:
        if place.can_run(one.system):
            able.append(one)
        else:
            outcome.missing.append(one.label)
    began = time.monotonic()
    for number in range(rounds):
        shift = number % max(len(able), 1)
        for one in able[shift:] + able[:shift]:
            if one.most_rounds is None or number < one.most_rounds:
                _measure(one, place, outcome, number, tell)
    outcome.seconds = time.monotonic() - began
    return outcome


def _measure(
    one: Contestant, place: Place, outcome: Outcome, number: int, tell: Callable[[str], None]
) -> None:
    name = f"{outcome.scenario.name}, round {number + 1}, {one.label}"
    try:
        measured = one.measure(place)
    except Exception as error:  # whatever it is: the others are still to be measured
        outcome.failures.append(f"{name}: {type(error).__name__}: {error}")
        tell(f"{name}: FAILED: {type(error).__name__}: {error}")
        return
    outcome.rounds.setdefault(one.label, {})[number] = measured
    tell(f"{name}: " + ", ".join(f"{key} {value:,.4g}" for key, value in measured.items()))
