"""Starting a message under its key: its token is above all before."""

import pytest

from tests.scripts.recorded import TTL_MS, Recorded

STARTED = {
    "state": "running",
    "token": "micros",
    "owner": "mine",
    "consumer": "process",
    "message_id": "second",
    "arguments": "args",
    "attempts": "1",
    "created_ms": "now",
    "started_ms": "now",
    "lease_end_ms": "later",
}


@pytest.mark.parametrize("state", ["", "pending", "failed", "running"])
def test_message_starts_when_nobody_runs_it(recorded: Recorded, state: str) -> None:
    if state:
        recorded.seed(state, lease_ms=-1, finished_ms="1")

    answer, token = recorded.start()

    assert answer == b"started"
    assert recorded.fields() == STARTED
    assert recorded.held() == {"k": "later"}
    assert int(token) == int(recorded.client.hget(recorded.record, "token") or 0)
    assert recorded.ttl_ms() == TTL_MS


def test_token_is_the_clock_in_microseconds(recorded: Recorded) -> None:
    before_ms = recorded.now()

    _, token = recorded.start()

    assert before_ms * 1000 <= int(token) <= (recorded.now() + 1) * 1000


def test_token_is_above_the_last_one_when_the_clock_is_not(recorded: Recorded) -> None:
    ahead = 9_000_000_000_000_001  # the clock went back since: 2**53 is not far
    recorded.seed("failed", token=ahead)

    assert recorded.start() == [b"started", str(ahead + 1).encode()]


def test_token_grows_after_the_record_is_lost(recorded: Recorded) -> None:
    _, old = recorded.start()
    recorded.client.delete(recorded.record)

    _, new = recorded.start()

    assert int(new) > int(old)


def test_attempts_are_counted_and_what_the_last_one_left_is_gone(recorded: Recorded) -> None:
    recorded.seed("failed", attempts=4, result="r", finished_ms="1", created_ms="1")

    recorded.start()

    assert recorded.fields() == {**STARTED, "attempts": "5", "created_ms": "1"}


def test_same_owner_gets_the_same_token_again(recorded: Recorded) -> None:
    first = recorded.start()
    before = recorded.fields()

    assert recorded.start() == first
    assert recorded.fields() == before


@pytest.mark.parametrize(
    ("state", "arguments", "answer"),
    [
        ("done", "args", b"done"),
        ("running", "args", b"busy"),
        ("pending", "other", b"conflict"),
        ("done", "other", b"conflict"),
    ],
)
def test_nothing_changes_when_something_is_in_the_way(
    recorded: Recorded, state: str, arguments: str, answer: bytes
) -> None:
    recorded.seed(state, lease_ms=5_000)
    before = recorded.fields(), recorded.held()

    assert recorded.start(arguments=arguments)[0] == answer
    assert (recorded.fields(), recorded.held()) == before


def test_keys_that_died_long_ago_leave_the_index(recorded: Recorded) -> None:
    old_ms, young_ms = recorded.now() - TTL_MS - 1_000, recorded.now() - TTL_MS + 10_000
    recorded.client.zadd(recorded.running, {f"old{n}": old_ms for n in range(12)})
    recorded.client.zadd(recorded.running, {"young": young_ms})

    recorded.start()

    left = recorded.held().keys()
    assert {"k", "young"} < left
    assert len(left) == 4  # ten at once
