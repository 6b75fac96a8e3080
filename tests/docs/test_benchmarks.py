"""The page of results has every scenario and every target; its numbers are the benchmarks' own."""

import pytest

from tests.benchmarks import page as benchmarks_page
from tests.benchmarks.contest import Outcome, Scenario
from tests.benchmarks.reporting import to_json
from tests.benchmarks.scenarios import SCENARIOS
from tests.docs.pages import page

PAGE = "docs/reference/benchmarks.md"


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.name)
def test_every_scenario_is_on_the_page(scenario: Scenario) -> None:
    rows = page(PAGE).rows(scenario.title)

    assert rows[0][1 : 1 + len(scenario.metrics)] == list(scenario.metrics)


def test_every_target_is_on_the_page_and_no_other() -> None:
    shown = [row[:3] for row in page(PAGE).rows("Targets")[1:]]

    assert shown == [row[:3] for row in _target_rows()]


def _target_rows() -> list[list[str]]:
    outcomes = [Outcome(scenario) for scenario in SCENARIOS.values()]
    report = to_json(outcomes, command="", machine={}, rounds=0)
    lines = [line for line in benchmarks_page.to_markdown(report) if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if row[0] in SCENARIOS]
