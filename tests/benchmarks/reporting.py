"""What came out, for people and for programs; nothing is measured or judged here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.benchmarks.contest import Outcome, Target
from tests.benchmarks.spread import Spread


def to_json(
    outcomes: Sequence[Outcome], *, command: str, machine: dict[str, str], rounds: int
) -> dict[str, Any]:
    """All values of all rounds, and what they come to."""
    return {
        "command": command,
        "machine": machine,
        "rounds": rounds,
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


def to_markdown(report: dict[str, Any]) -> Iterator[str]:
    """The lines of a page with everything in *report*, the JSON."""
    yield from _targets_table(report["scenarios"])
    for scenario in report["scenarios"]:
        yield from _scenario_section(scenario)


def _targets_table(scenarios: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "## Targets"
    yield ""
    yield "| scenario | what | target | measured: median (min - max) | |"
    yield "|---|---|---|---|---|"
    for scenario in scenarios:
        for target in scenario["targets"]:
            yield f"| {scenario['name']} | {_target_row(target)} |"
    yield ""


def _target_row(target: dict[str, Any]) -> str:
    sign = ">=" if target["at_least"] else "<="
    over = f" / {target['over']}" if target["over"] else ""
    what = f"{target['of']}{over}, {target['metric']}"
    measured = target["measured"]
    verdict = {None: "not measured", True: "pass", False: "**FAIL**"}[target["passed"]]
    shown = _spread_text(measured) if measured else "-"
    return f"{what} | {sign} {_number(target['limit'])} | {shown} | {verdict}"


def _scenario_section(scenario: dict[str, Any]) -> Iterator[str]:
    yield f"## {scenario['title']}"
    yield ""
    if scenario["notes"]:
        yield scenario["notes"]
        yield ""
    compared = scenario["compared"]
    heads = ["", *scenario["metrics"]]
    if compared:
        heads.append(f"ours / this, {compared}")
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in scenario["rows"]:
        cells = [row["label"]]
        for metric in scenario["metrics"]:
            value = row["values"].get(metric)
            cells.append(_spread_text(value) if value else "-")
        if compared:
            cells.append(_spread_text(row["ratio"]) if row["ratio"] else "")
        yield f"| {' | '.join(cells)} |"
    yield ""
    for label in scenario["missing"]:
        yield f"Not measured, because its server is missing or it was not chosen: {label}."
    for failure in scenario["failures"]:
        first, *more = failure.splitlines()
        yield f"Failed: {first} {more[-1] if more else ''}".rstrip()
    if scenario["missing"] or scenario["failures"]:
        yield ""


def _spread_text(spread: dict[str, float]) -> str:
    middle, least, most = (_number(spread[key]) for key in ("median", "min", "max"))
    return middle if least == most else f"{middle} ({least} - {most})"


def _number(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
