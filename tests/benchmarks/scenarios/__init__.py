"""The scenarios by name, in the order in which they run."""

from tests.benchmarks.contest import Scenario
from tests.benchmarks.scenarios import drain1

SCENARIOS: dict[str, Scenario] = {module.SCENARIO.name: module.SCENARIO for module in (drain1,)}
