"""What came out, as data: all values of all rounds, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.benchmarks.contest import Outcome, Target
from tests.benchmarks.spread import Spread


def to_json(
    outcomes: Sequence[Outcome],
    *,
    command: str,
    machine: dict[str, str],
    rounds: int,
    quick: bool = False,
) -> dict[str, Any]:
    """All values of all rounds, and what they come to."""
    return {
        "command": command,
        "machine": machine,
        "rounds": rounds,
        "quick": quick,
        "scenarios": [_scenario_json(outcome) for outcome in outcomes],
    }


def _scenario_json(outcome: Outcome) -> dict[str, Any]:
    scenario = outcome.scenario
    return {
        "name": scenario.name,
        "title": scenario.title,
        "notes": scenario.notes,
        "seconds": round(outcome.seconds, 1),
        "metrics": dict(scenario.metrics),
        "compared": scenario.compared,
        "rows": [_row_json(outcome, label) for label in outcome.rounds],
        "targets": [_target_json(outcome, target) for target in scenario.targets],
        "failures": outcome.failures,
        "missing": outcome.missing,
    }


def _row_json(outcome: Outcome, label: str) -> dict[str, Any]:
    scenario = outcome.scenario
    found: dict[str, Any] = {"label": label, "values": {}, "ratio": None}
    for metric in scenario.metrics:
        if spread := outcome.spread(label, metric):
            found["values"][metric] = {
                **_spread_json(spread),
                "rounds": list(outcome.values(label, metric).values()),
            }
    if scenario.compared and label != scenario.reference:
        ratio = outcome.ratio(scenario.compared, scenario.reference, label)
        found["ratio"] = ratio and _spread_json(ratio)
    return found


def _target_json(outcome: Outcome, target: Target) -> dict[str, Any]:
    judged = outcome.judge(target)
    return {
        "metric": target.metric,
        "of": target.of,
        "over": target.over,
        "limit": target.limit,
        "at_least": target.at_least,
        "measured": judged and _spread_json(judged[0]),
        "passed": judged and judged[1],
    }


def _spread_json(spread: Spread) -> dict[str, float]:
    return {"median": spread.median, "min": spread.least, "max": spread.most}
