"""Noting how a message has ended: only the newest token may."""

import pytest

from tests.scripts.recorded import TTL_MS, Recorded


@pytest.mark.parametrize("state", ["done", "failed"])
def test_end_is_noted(recorded: Recorded, state: str) -> None:
    recorded.seed("running", lease_ms=100)

    noted = recorded.finish(7, state)

    assert noted == 1
    assert recorded.fields() == {
        "state": state,
        "token": "7",
        "owner": "me",
        "arguments": "args",
        "message_id": "second",
        "finished_ms": "now",
    }
    assert recorded.held() == {}
    assert recorded.ttl_ms() == 2 * TTL_MS


def test_result_is_kept(recorded: Recorded) -> None:
    recorded.seed("running", lease_ms=100)

    recorded.finish(7, result=b"r")

    assert recorded.fields()["result"] == "r"


def test_end_is_noted_after_the_lease_if_nobody_has_started_since(recorded: Recorded) -> None:
    recorded.seed("running", lease_ms=-1)

    assert recorded.finish(7) == 1


@pytest.mark.parametrize("state", ["pending", "running", "done", "failed"])
@pytest.mark.parametrize("end", ["done", "failed"])
def test_older_token_is_refused(recorded: Recorded, state: str, end: str) -> None:
    recorded.seed(state, lease_ms=100)
    before = recorded.fields(), recorded.held()

    assert recorded.finish(6, end) == 0
    assert (recorded.fields(), recorded.held()) == before


def test_tokens_are_compared_as_numbers(recorded: Recorded) -> None:
    recorded.seed("running", token=1_700_000_000_000_001)

    assert recorded.finish(999) == 0
    assert recorded.finish(1_700_000_000_000_000) == 0
    assert recorded.finish(1_700_000_000_000_001) == 1


def test_repetition_is_noted_and_changes_nothing(recorded: Recorded) -> None:
    recorded.seed("running", lease_ms=100)
    recorded.finish(7)
    before = recorded.fields()

    assert recorded.finish(7) == 1
    assert recorded.fields() == before


@pytest.mark.parametrize(("first", "then"), [("done", "failed"), ("failed", "done")])
def test_one_token_has_one_end(recorded: Recorded, first: str, then: str) -> None:
    recorded.seed("running", lease_ms=100)
    recorded.finish(7, first)

    assert recorded.finish(7, then) == 0
    assert recorded.fields()["state"] == first


def test_end_of_what_an_operator_has_released_is_refused(recorded: Recorded) -> None:
    recorded.seed("pending")

    assert recorded.finish(7) == 0


@pytest.mark.parametrize(("state", "noted"), [("done", 1), ("failed", 0)])
def test_record_that_is_lost_is_made_again_by_what_is_done(
    recorded: Recorded, state: str, noted: int
) -> None:
    assert recorded.finish(7, state) == noted
    assert recorded.fields().get("state") == ("done" if noted else None)


def test_record_that_another_has_begun_since_it_was_lost_is_done(recorded: Recorded) -> None:
    recorded.look()

    assert recorded.finish(7) == 1
    assert recorded.fields()["state"] == "done"
