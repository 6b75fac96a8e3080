"""The guaranteed share of each lane, against the order of reading that `read.lua` keeps."""

from collections.abc import Sequence

import pytest

from dramatiq_streams.lanes import DEFAULT_LANES, Credits, Lanes

ALWAYS = 10**9


def read(grant: Sequence[int], waiting: Sequence[int], budget: int) -> list[int]:
    """What one read takes of each lane: shares first, then the rest, highest lane first."""
    taken = [0] * len(waiting)
    for wanted in (grant, [budget] * len(waiting)):
        for lane, most in enumerate(wanted):
            count = min(most, waiting[lane] - taken[lane], budget - sum(taken))
            taken[lane] += count
    return taken


def drain(lanes: Lanes, *, budget: int, reads: int) -> list[int]:
    """How much each lane gets over *reads* while none is ever empty."""
    owed, totals = Credits(lanes), [0] * len(lanes.names)
    for _ in range(reads):
        counts = read(owed.grant(budget), [ALWAYS] * len(totals), budget)
        owed.spend(counts)
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
    return totals


@pytest.mark.parametrize("budget", [1, 2, 3, 7, 16, 100])
@pytest.mark.parametrize(
    "shares",
    [
        DEFAULT_LANES,
        {"high": 0, "default": 50, "low": 25},
        {"high": 0, "a": 5, "b": 5, "c": 5, "d": 5},
        {"high": 0, "low": 1},
        {"high": 30, "low": 10},
    ],
    ids=str,
)
def test_lower_lanes_get_their_share_while_higher_ones_are_never_empty(
    shares: dict[str, float], budget: int
) -> None:
    reads = 2_000

    totals = drain(Lanes.of(shares), budget=budget, reads=reads)

    for total, share in list(zip(totals, shares.values(), strict=True))[1:]:
        assert total == pytest.approx(reads * budget * share / 100, abs=2)


def test_two_lanes_owed_the_only_entry_take_turns() -> None:
    owed = Credits(Lanes.of({"high": 0, "a": 49, "b": 49}))

    taken = []
    for _ in range(6):
        counts = read(owed.grant(1), [ALWAYS] * 3, 1)
        owed.spend(counts)
        taken.append(counts.index(1))

    assert taken.count(1) >= 2
    assert taken.count(2) >= 2


def test_nothing_is_owed_at_first() -> None:
    owed = Credits(Lanes.of(DEFAULT_LANES))

    assert owed.grant(0) == [0, 0, 0]


def test_whole_entries_are_owed_and_the_rest_is_carried_over() -> None:
    owed = Credits(Lanes.of({"high": 0, "low": 25}))

    grants = []
    for _ in range(8):
        grants.append(owed.grant(1)[1])
        owed.spend([1 - grants[-1], grants[-1]])

    assert grants == [0, 0, 0, 1, 0, 0, 0, 1]


def test_lane_that_was_empty_does_not_save_up() -> None:
    owed = Credits(Lanes.of({"high": 0, "low": 50}))
    for _ in range(100):
        owed.grant(10)
        owed.spend([10, 0])

    grant = owed.grant(10)

    assert grant == [0, 5]


def test_lane_read_beyond_its_share_owes_nothing_later() -> None:
    owed = Credits(Lanes.of({"high": 0, "low": 50}))
    owed.grant(10)
    owed.spend([0, 10])

    grant = owed.grant(2)

    assert grant == [0, 1]


def test_reads_with_a_budget_of_zero_change_nothing() -> None:
    owed = Credits(Lanes.of({"high": 0, "a": 30, "b": 30}))
    owed.grant(5)
    owed.spend(read([0, 1, 1], [ALWAYS] * 3, 5))
    expected = owed.grant(0)
    for _ in range(10):
        owed.spend([0, 0, 0])
        assert owed.grant(0) == expected
