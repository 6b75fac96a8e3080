"""The results as Markdown: for the terminal, and as the page of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

_INTRODUCTION = """\
# Benchmarks

StreamsBroker and others, measured in turns on one machine: only the ratios carry over to another.
This page is written by the benchmarks themselves, by `tox -e bench -- --page FILE`.
"""

_METHOD = """\
## How it is measured

- Each round measures everyone once, and each in another order.
- A ratio is one of two values of the same round; medians are over the rounds.
- Every message has a number, and every start is noted: a measurement in which a message was lost \
or ran twice is a failure, and no number.
- Each measurement has a new Redis server without persistence, over loopback TCP, and processes of \
its own; RabbitMQ has one node, which stands still while others run.
- Each system has its defaults, but that taskiq logs no line for each task.
- Celery acknowledges a message before it runs: what a killed worker had is lost.
- The actor does nothing; it is given a URL of 60 characters and an integer.
"""


def to_page(report: dict[str, Any]) -> Iterator[str]:
    """The lines of the documentation's page."""
    yield from _INTRODUCTION.splitlines()
    if _was_busy(report["machine"]):
        yield "**The machine was busy with other work**: these numbers show that all of it runs."
    if report["quick"]:
        yield "It is of a quick run, with fewer and shorter measurements than its texts say."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| command | `{report['command']}` |"
    yield f"| rounds | {report['rounds']} |"
    for name, value in report["machine"].items():
        yield f"| {name} | {value} |"
    yield ""
    yield from _METHOD.splitlines()
    yield ""
    yield from to_markdown(report)


def _was_busy(machine: dict[str, str]) -> bool:
    """Whether there was more to run than processors to run it, before anything was measured."""
    if not machine:
        return False
    return float(machine["load"].split()[0]) > int(machine["machine"].split()[0])


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
    if scenario["missing"]:
        yield f"Not measured, for want of a server or by choice: {', '.join(scenario['missing'])}."
    for failure in scenario["failures"]:
        first, *more = failure.splitlines()
        yield "Failed: " + _one_line(f"{first} {more[-1] if more else ''}")
    if scenario["missing"] or scenario["failures"]:
        yield ""


def _one_line(text: str) -> str:
    """*text* without line breaks and without a second sentence."""
    return re.sub(r"[.!?]\s+", "; ", " ".join(text.split())).rstrip(".") + "."


def _spread_text(spread: dict[str, float]) -> str:
    middle, least, most = (_number(spread[key]) for key in ("median", "min", "max"))
    return middle if least == most else f"{middle} ({least} - {most})"


def _number(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
