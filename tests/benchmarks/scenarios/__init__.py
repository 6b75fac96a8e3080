"""The scenarios by name, in the order in which they run."""

from tests.benchmarks.contest import Scenario
from tests.benchmarks.scenarios import (
    bulk,
    burst,
    burst_many,
    commands,
    delayed,
    drain1,
    enqueue,
    idle_commands,
    idle_latency,
    queues50,
)

_MODULES = (
    drain1,
    enqueue,
    bulk,
    idle_latency,
    burst,
    burst_many,
    delayed,
    commands,
    idle_commands,
    queues50,
)

SCENARIOS: dict[str, Scenario] = {module.SCENARIO.name: module.SCENARIO for module in _MODULES}
