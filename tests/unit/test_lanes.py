import math
from collections.abc import Iterable
from typing import Any

import pytest

from dramatiq_streams.errors import InvalidOption, UnknownLane
from dramatiq_streams.lanes import DEFAULT_LANES, Lanes

LANES = Lanes.of(DEFAULT_LANES)


def test_mapping_gives_names_in_order_and_shares() -> None:
    lanes = Lanes.of({"urgent": 0, "normal": 25, "bulk": 2.5})

    assert lanes == Lanes(("urgent", "normal", "bulk"), (0.0, 0.25, 0.025))


def test_names_alone_get_equal_shares() -> None:
    lanes = Lanes.of(["a", "b", "c"])

    assert lanes == Lanes(("a", "b", "c"), (0.0, 0.1, 0.1))


def test_many_names_leave_at_least_half_to_the_highest() -> None:
    lanes = Lanes.of([f"lane{number}" for number in range(64)])

    assert sum(lanes.shares) == pytest.approx(0.5)
    assert lanes.shares[0] == 0
    assert min(lanes.shares[1:]) > 0


def test_one_lane_is_enough() -> None:
    lanes = Lanes.of(("only",))

    assert lanes == Lanes(("only",), (0.0,))


@pytest.mark.parametrize("name", ["a", "A-Z_09", "x" * 64])
def test_name_may_have_up_to_64_plain_characters(name: str) -> None:
    assert Lanes.of([name]).names == (name,)


@pytest.mark.parametrize(
    "value",
    [
        "high",
        b"high",
        None,
        3,
        pytest.param({"high", "low"}, id="a set"),
        pytest.param(iter(["high"]), id="an iterator"),
        [],
        {},
        [""],
        [f"lane{number}" for number in range(65)],
        ["high", "high"],
        ["x" * 65],
        ["high\n"],
        ["hi gh"],
        ["a:b"],
        ["{a}"],
        ["höchste"],
        [None],
        [1, 2],
        [["a"]],
        [b"high"],
        range(3),
        {1: 0},
        {"high": 0, "low": 0},
        {"high": 0, "low": -1},
        {"high": -1, "low": 1},
        {"high": 0, "low": 100},
        {"high": 50, "low": 50},
        {"high": 0, "a": 60, "b": 60},
        {"high": 0, "low": True},
        {"high": False, "low": 5},
        {"high": 0, "low": "5"},
        {"high": None, "low": 5},
        {"high": 0, "low": math.nan},
        {"high": math.nan, "low": 5},
        {"high": 0, "low": math.ulp(0)},
        {"high": 0.5, "low": 10**400},
        {"high": 0, "low": math.inf},
        {"high": math.inf},
        {"high": 10**400},
        {"high": 1, "low": 10**400},
    ],
    ids=repr,
)
def test_impossible_lanes_are_named_with_what_is_allowed(value: Any) -> None:
    with pytest.raises(InvalidOption) as raised:
        Lanes.of(value)

    assert str(raised.value).startswith("lanes=")
    assert "highest lane first" in str(raised.value)


@pytest.mark.parametrize("value", [[1, 2], {"high": 0, "low": -7}, ["a", "a"]])
def test_impossible_lanes_are_quoted(value: Any) -> None:
    with pytest.raises(InvalidOption) as raised:
        Lanes.of(value)

    assert f"lanes={value!r} is not possible" in str(raised.value)


@pytest.mark.parametrize(("name", "position"), [("high", 1), ("default", 2), ("low", 3)])
def test_position_counts_from_the_highest(name: str, position: int) -> None:
    assert LANES.position(name) == position


@pytest.mark.parametrize("name", ["", "High", "lowest", None, 1, ["low"], b"low"])
def test_unknown_lane_is_named_with_those_there_are(name: Any) -> None:
    with pytest.raises(UnknownLane) as raised:
        LANES.position(name)

    assert f"lane={name!r}" in str(raised.value)
    assert "'high', 'default', 'low'" in str(raised.value)


@pytest.mark.parametrize(
    ("names", "position"),
    [
        (["default"], 1),
        (["a", "b", "default"], 3),
        (["default", "b"], 1),
        (["a"], 1),
        (["a", "b"], 1),
        (["a", "b", "c"], 2),
        (["a", "b", "c", "d"], 2),
    ],
)
def test_default_lane_is_the_one_named_so_else_the_middle_one(
    names: list[str], position: int
) -> None:
    assert Lanes.of(names).default_position == position


@pytest.mark.parametrize(
    ("priority", "position"),
    [(-100, 1), (-1, 1), (-0.5, 1), (0, 2), (0.0, 2), (1, 3), (10**400, 3), (math.inf, 3)],
)
def test_lower_priority_numbers_come_sooner(priority: float, position: int) -> None:
    assert LANES.position_of_priority(priority) == position


@pytest.mark.parametrize("priority", [-1, 0, 1])
def test_one_lane_takes_every_priority(priority: int) -> None:
    assert Lanes.of(["only"]).position_of_priority(priority) == 1


@pytest.mark.parametrize("priority", [None, "1", True, [1], b"1"])
def test_priority_that_is_no_number_is_refused(priority: Any) -> None:
    with pytest.raises(InvalidOption, match=r"priority=.* must be a number"):
        LANES.position_of_priority(priority)


@pytest.mark.parametrize(
    ("message", "actor", "actor_priority", "position"),
    [
        ({}, {}, 0, 2),
        ({}, {}, -5, 1),
        ({"priority": 5}, {}, -5, 3),
        ({}, {"lane": "low"}, -5, 3),
        ({"priority": -5}, {"lane": "low"}, -5, 3),
        ({"lane": "high"}, {"lane": "low"}, 5, 1),
        ({"lane": "high", "priority": 5}, {}, 5, 1),
        ({"lane": None}, {"lane": "low"}, 0, 3),
        ({"lane": None}, {"lane": None}, 5, 3),
    ],
)
def test_lane_wins_over_priority_and_message_over_actor(
    message: dict[str, Any], actor: dict[str, Any], actor_priority: int, position: int
) -> None:
    assert LANES.choose(message, actor, actor_priority) == position


@pytest.mark.parametrize("where", [({"lane": "nope"}, {}), ({}, {"lane": "nope"})])
def test_choosing_an_unknown_lane_is_refused(where: tuple[Any, Any]) -> None:
    with pytest.raises(UnknownLane, match="lane='nope'"):
        LANES.choose(*where)


def test_error_of_lanes_is_an_invalid_option_and_a_value_error() -> None:
    assert issubclass(UnknownLane, InvalidOption)
    assert issubclass(InvalidOption, ValueError)


def test_lanes_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        LANES.names = ()  # type: ignore[misc]


def test_generator_of_names_is_refused_unread() -> None:
    def names() -> Iterable[str]:
        raise AssertionError("read")
        yield ""

    with pytest.raises(InvalidOption):
        Lanes.of(names())  # type: ignore[arg-type]
