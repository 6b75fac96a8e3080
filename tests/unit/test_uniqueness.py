"""What the options ask for, and which of them win."""

import pytest

from dramatiq_streams.errors import InvalidOption
from dramatiq_streams.uniqueness import (
    DEFAULT_UNIQUE_FOR_MS,
    LONGEST_UNIQUE_FOR_MS,
    Reservation,
    Uniqueness,
    Until,
    unique_for_of,
)

DAY = DEFAULT_UNIQUE_FOR_MS


@pytest.mark.parametrize(
    ("of_message", "of_actor", "expected"),
    [
        ({}, {}, None),
        ({"unique_for": None, "unique_until": None}, {"unique_for": None}, None),
        ({}, {"unique_for": 5}, (5, "done")),
        ({}, {"unique_until": "started"}, (DAY, "started")),
        ({"unique_for": 7}, {"unique_for": 5, "unique_until": "started"}, (7, "started")),
        ({"unique_until": "done"}, {"unique_for": 5, "unique_until": "started"}, (5, "done")),
        ({"unique_for": None}, {"unique_for": 5}, (5, "done")),
        ({"unique_for": LONGEST_UNIQUE_FOR_MS}, {}, (LONGEST_UNIQUE_FOR_MS, "done")),
        ({"unique_for": 1, "unique_until": Until.STARTED}, {}, (1, "started")),
    ],
)
def test_options_of_the_message_win(of_message, of_actor, expected) -> None:
    found = Uniqueness.of(of_message, of_actor)

    assert (None if found is None else (found.unique_for_ms, found.until)) == expected


def test_options_of_a_message_say_the_same_again() -> None:
    found = Uniqueness.of({}, {"unique_for": 5, "unique_until": "started"})

    assert found is not None
    assert Uniqueness.of(found.as_options(), {}) == found


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "5", LONGEST_UNIQUE_FOR_MS + 1, [5]])
def test_wrong_unique_for_is_named_with_what_is_allowed(value: object) -> None:
    with pytest.raises(InvalidOption, match=r"unique_for=.* milliseconds from 1 to"):
        Uniqueness.of({"unique_for": value}, {})


@pytest.mark.parametrize("value", ["", "DONE", 1, False, ["done"], {}])
def test_wrong_unique_until_is_named_with_what_is_allowed(value: object) -> None:
    with pytest.raises(InvalidOption, match=r"unique_until=.* 'started' or 'done'"):
        Uniqueness.of({}, {"unique_until": value})


@pytest.mark.parametrize("options", [{}, {"unique_for": "nonsense"}, {"unique_for": None}])
def test_message_from_elsewhere_is_unique_for_the_default_time(options: dict) -> None:
    assert unique_for_of(options) == DAY


def test_reservation_is_unpacked_as_it_was_packed() -> None:
    made = Reservation("work:ключ \n", 5, "m:1")

    assert Reservation.unpacked(made.packed()) == made
