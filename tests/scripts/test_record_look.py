"""Asking a record whether a message may run."""

import pytest

from tests.scripts.recorded import TTL_MS, Recorded


def test_first_message_of_a_key_makes_its_record(recorded: Recorded) -> None:
    answer = recorded.look()

    assert answer == [b"free"]
    assert recorded.fields() == {
        "state": "pending",
        "arguments": "args",
        "message_id": "mine",
        "created_ms": "now",
    }
    assert recorded.ttl_ms() == TTL_MS


@pytest.mark.parametrize("state", ["pending", "failed", "running"])
def test_record_that_keeps_nobody_from_running_stays_as_it_is(
    recorded: Recorded, state: str
) -> None:
    recorded.seed(state, lease_ms=-1)
    before = recorded.fields()

    answer = recorded.look()

    assert answer == [b"free"]
    assert recorded.fields() == before


def test_done_says_who_and_with_which_result(recorded: Recorded) -> None:
    recorded.seed("done", result="r")

    assert recorded.look() == [b"done", b"first", b"r"]


def test_done_without_a_result_has_an_empty_one(recorded: Recorded) -> None:
    recorded.seed("done")

    assert recorded.look() == [b"done", b"first", b""]


def test_running_says_for_how_long_others_have_to_wait(recorded: Recorded) -> None:
    recorded.seed("running", lease_ms=5_000)

    verdict, left_ms, message_id = recorded.look()

    assert (verdict, message_id) == (b"busy", b"first")
    assert 3_000 < left_ms <= 5_000


@pytest.mark.parametrize("state", ["pending", "running", "done", "failed"])
def test_other_arguments_are_a_conflict_in_every_state(recorded: Recorded, state: str) -> None:
    recorded.seed(state, lease_ms=5_000)
    before = recorded.fields()

    answer = recorded.look(arguments="other")

    assert answer == [b"conflict", b"first"]
    assert recorded.fields() == before
