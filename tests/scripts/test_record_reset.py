"""An operator frees a key."""

import pytest

from tests.scripts.recorded import Recorded


@pytest.mark.parametrize("state", ["pending", "running", "done", "failed"])
def test_key_is_free_for_any_arguments_and_keeps_its_token(recorded: Recorded, state: str) -> None:
    recorded.seed(state, lease_ms=5_000, result="r", attempts=3)

    done = recorded.scripts.record_reset(record=recorded.record, running=recorded.running, key="k")

    assert done == 1
    assert recorded.fields() == {
        "state": "pending",
        "token": "7",
        "message_id": "first",
        "attempts": "3",
    }
    assert recorded.held() == {}
    assert recorded.look(arguments="other") == [b"free"]


def test_key_without_a_record_is_not_made(recorded: Recorded) -> None:
    done = recorded.scripts.record_reset(record=recorded.record, running=recorded.running, key="k")

    assert done == 0
    assert recorded.fields() == {}


def test_key_that_is_free_already_is_told_and_stays_as_it_is(recorded: Recorded) -> None:
    recorded.seed("done")
    reset = recorded.scripts.record_reset
    reset(record=recorded.record, running=recorded.running, key="k")
    before = recorded.fields()

    done = reset(record=recorded.record, running=recorded.running, key="k")

    assert done == 0
    assert recorded.fields() == before
