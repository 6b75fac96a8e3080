"""What lower lanes get while a higher one is never empty."""

from collections import Counter

from dramatiq_streams.lanes import DEFAULT_LANES
from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan

_FIRST = {lane: index * 1_000_000 for index, lane in enumerate(DEFAULT_LANES)}
#: What is in flight when the high lane ends, a hundred messages, is neither here nor there.
_EXACT = 0.99
_LOWER = [lane for lane in DEFAULT_LANES if lane != "high"]


def _measure(place: Place) -> dict[str, float]:
    count = 2 * place.messages
    with place.trial("ours") as trial:
        for lane, first in _FIRST.items():
            trial.produce(Plan(count=count, how="many", first=first, lane=lane))
        with trial.workers(in_process=True):
            trial.wait_for(count * len(_FIRST))
        expected = (number for first in _FIRST.values() for number in range(first, first + count))
        starts = trial.check(expected)
    lanes = [_lane(one.number) for one in starts]
    # Until the high lane is nearly empty: what is read with its end is somebody else's.
    flooded = lanes[: _index_of(lanes, "high", int(0.95 * count))]
    counts = Counter(flooded)
    return {f"{lane}, %": counts[lane] / len(flooded) * 100 for lane in _LOWER}


def _lane(number: int) -> str:
    return next(lane for lane, first in reversed(_FIRST.items()) if number >= first)


def _index_of(lanes: list[str], lane: str, count: int) -> int:
    """Where *lane* occurs for the time number *count*."""
    seen = 0
    for index, one in enumerate(lanes):
        seen += one == lane
        if seen == count:
            return index + 1
    raise AssertionError(f"lane {lane!r} has fewer than {count} starts")


SCENARIO = Scenario(
    name="low_lanes",
    title="What low lanes get under a flood of high",
    contestants=(Contestant("StreamsBroker", "ours", _measure, most_rounds=3),),
    metrics={f"{lane}, %": "of all starts" for lane in _LOWER},
    targets=tuple(
        Target(f"{lane}, %", "StreamsBroker", _EXACT * DEFAULT_LANES[lane]) for lane in _LOWER
    ),
    notes="All three lanes are full; the share of starts until 95 % of the high ones have started.",
)
