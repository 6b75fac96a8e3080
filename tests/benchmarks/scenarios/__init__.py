"""The scenarios by name, in the order in which they run."""

from tests.benchmarks.contest import Scenario
from tests.benchmarks.scenarios import (
    backlog,
    bulk,
    burst,
    burst_many,
    commands,
    cpu,
    delayed,
    drain1,
    drain2,
    enqueue,
    high_lane,
    idle_commands,
    idle_latency,
    low_lanes,
    memory,
    profile,
    queues50,
    recovery,
)

_MODULES = (
    drain1,
    drain2,
    enqueue,
    bulk,
    idle_latency,
    burst,
    burst_many,
    delayed,
    high_lane,
    low_lanes,
    recovery,
    commands,
    cpu,
    idle_commands,
    queues50,
    memory,
    backlog,
    profile,
)

SCENARIOS: dict[str, Scenario] = {module.SCENARIO.name: module.SCENARIO for module in _MODULES}
