"""What goes in comes out: messages through encoding, options of lanes, shares of reading."""

from typing import Any

import pytest
from dramatiq.common import q_name
from dramatiq.errors import DecodeError
from dramatiq.message import Message
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_streams.errors import InvalidOption
from dramatiq_streams.lanes import Credits, Lanes
from dramatiq_streams.messages import Entry, decode, encode
from dramatiq_streams.options import checked_delay, checked_timeout, delay_until

names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9._-]{0,20}", fullmatch=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
options = st.dictionaries(st.text() | st.sampled_from(["eta", "retries"]), values, max_size=4)
messages: st.SearchStrategy[Message[Any]] = st.builds(
    Message,
    queue_name=names,
    actor_name=names,
    args=st.lists(values, max_size=3).map(tuple),
    kwargs=st.dictionaries(st.text(), values, max_size=3),
    options=options,
    message_id=st.text(min_size=1),
    message_timestamp=st.integers(0, 10**14),
)
lane_names = st.lists(
    st.from_regex(r"[a-zA-Z0-9_-]{1,8}", fullmatch=True), min_size=1, max_size=6, unique=True
)
anything = st.one_of(st.floats(), st.integers(), st.text(), st.none(), st.booleans(), st.binary())


def delivered(body: bytes, queue_name: str) -> Message[Any]:
    return decode(Entry(1, "1-0", 1, body), queue_name).message


@given(messages)
def test_message_survives_but_for_its_eta_and_the_suffix_of_its_queue(
    message: Message[Any],
) -> None:
    kept = {name: value for name, value in message.options.items() if name != "eta"}
    canonical = q_name(message.queue_name)

    found = delivered(encode(message), canonical)

    assert found.asdict() == {**message.asdict(), "queue_name": canonical, "options": kept}


@given(messages)
def test_encoding_what_was_delivered_changes_nothing_more(message: Message[Any]) -> None:
    body = encode(message)

    again = encode(delivered(body, q_name(message.queue_name)))

    assert again == body


@given(st.binary())
def test_any_bytes_are_a_message_or_a_decode_error(body: bytes) -> None:
    with pytest.raises(DecodeError):
        delivered(body, "queue")


@given(messages, st.sampled_from(["queue_name", "kwargs", "options", "message_id"]), values)
def test_any_json_is_a_message_or_a_decode_error(
    message: Message[Any], field: str, value: Any
) -> None:
    message = message.copy()
    object.__setattr__(message, field, value)
    body = message.encode()

    try:
        found = delivered(body, "queue")
    except DecodeError:
        return

    assert isinstance(found.options, dict)
    assert isinstance(found.kwargs, dict)
    assert found.queue_name == "queue"


@given(lane_names)
def test_names_alone_leave_the_highest_lane_at_least_half(found: list[str]) -> None:
    lanes = Lanes.of(found)

    assert lanes.names == tuple(found)
    assert lanes.shares[0] == 0
    assert all(share > 0 for share in lanes.shares[1:])
    assert sum(lanes.shares) <= 0.5 + 1e-9
    assert [lanes.position(name) for name in found] == list(range(1, len(found) + 1))


@given(lane_names, st.lists(st.floats(), min_size=6, max_size=6))
def test_shares_are_possible_or_refused(found: list[str], shares: list[float]) -> None:
    option = dict(zip(found, shares, strict=False))

    try:
        lanes = Lanes.of(option)
    except InvalidOption:
        return

    assert all(share > 0 for share in lanes.shares[1:])
    assert 0 <= lanes.shares[0] < 1
    assert 0 <= sum(lanes.shares) < 1 + 1e-9


@given(lane_names, st.integers() | st.floats(allow_nan=False))
def test_lower_priority_never_gets_a_higher_lane(found: list[str], priority: float) -> None:
    lanes = Lanes.of(found)

    position = lanes.position_of_priority(priority)

    assert 1 <= position <= len(found)
    assert position <= lanes.position_of_priority(priority + 1)


@given(
    st.lists(st.floats(0.1, 15), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 20), st.lists(st.integers(0, 20), min_size=6, max_size=6))),
)
def test_credits_are_never_negative_and_never_saved_up_by_an_empty_lane(
    shares: list[float], reads: list[tuple[int, list[int]]]
) -> None:
    lanes = Lanes.of({"top": 0, **{f"lane{index}": share for index, share in enumerate(shares)}})
    owed = Credits(lanes)

    for budget, waiting in reads:
        grant = owed.grant(budget)
        counts = _read(grant, waiting[: len(grant)], budget)
        owed.spend(counts)

        left = owed.grant(0)
        assert grant[0] == 0
        assert min(left) >= 0
        # Whatever is owed still was owed before and could not be read: the budget was used up.
        assert sum(left) == 0 or sum(counts) == budget


@pytest.mark.parametrize("check", [checked_delay, checked_timeout])
@given(value=anything)
def test_durations_are_whole_or_refused(check: Any, value: Any) -> None:
    try:
        checked = check(value)
    except InvalidOption:
        return

    assert isinstance(checked, int)
    assert 0 <= checked - value <= 1


@given(eta=anything, now_ms=st.integers(0, 10**13))
def test_eta_is_a_delay_that_may_be_asked_for_or_refused(eta: Any, now_ms: int) -> None:
    try:
        delay = delay_until(eta, now_ms=now_ms)
    except InvalidOption:
        return

    assert checked_delay(delay) == delay if eta is not None else delay is None


def _read(grant: list[int], waiting: list[int], budget: int) -> list[int]:
    """The order of reading that `read.lua` keeps: shares first, then the highest lanes."""
    taken = [0] * len(waiting)
    for wanted in (grant, [budget] * len(waiting)):
        for lane, most in enumerate(wanted):
            taken[lane] += min(most, waiting[lane] - taken[lane], budget - sum(taken))
    return taken
