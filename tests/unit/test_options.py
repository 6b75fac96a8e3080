import math
from collections.abc import Callable
from typing import Any

import pytest

from dramatiq_streams.errors import InvalidOption
from dramatiq_streams.lanes import DEFAULT_LANES, Lanes
from dramatiq_streams.options import (
    LONGEST_DELAY_MS,
    BrokerOptions,
    checked_delay,
    checked_prefetch,
    checked_queue_name,
    checked_timeout,
    delay_until,
)

VALID: dict[str, Any] = {
    "namespace": "ns",
    "lanes": ["high", "low"],
    "lease": 60_000,
    "disconnect_grace": 10_000,
    "max_deliveries": 5,
    "dead_message_ttl": 1_000,
    "max_dead_messages": 10,
}
NO_INTEGERS = [None, "5000", 5000.0, True, math.nan, [5000], b"5000"]


def test_options_are_kept_as_they_are_given() -> None:
    options = BrokerOptions.of(**VALID)

    assert options == BrokerOptions(
        namespace="ns",
        lanes=Lanes.of(["high", "low"]),
        lease_ms=60_000,
        disconnect_grace_ms=10_000,
        max_deliveries=5,
        dead_message_ttl_ms=1_000,
        max_dead_messages=10,
    )


def test_no_lanes_given_means_the_default_ones() -> None:
    options = BrokerOptions.of(**{**VALID, "lanes": None})

    assert options.lanes == Lanes.of(DEFAULT_LANES)


@pytest.mark.parametrize(
    ("option", "least", "most"),
    [
        ("lease", 1_000, 3_600_000),
        ("disconnect_grace", 1_000, 3_600_000),
        ("max_deliveries", 1, 1_000_000),
        ("dead_message_ttl", 1_000, 100 * 366 * 86_400_000),
        ("max_dead_messages", 1, 100_000_000),
    ],
)
def test_number_is_allowed_from_its_least_to_its_most(option: str, least: int, most: int) -> None:
    for allowed in (least, most):
        BrokerOptions.of(**{**VALID, option: allowed})

    for refused in (least - 1, most + 1, 0, -least, 10**400, *NO_INTEGERS):
        with pytest.raises(InvalidOption) as raised:
            BrokerOptions.of(**{**VALID, option: refused})
        assert f"{option}={refused!r} is not possible" in str(raised.value)
        assert f"from {least} to {most}" in str(raised.value)


@pytest.mark.parametrize("namespace", ["a", "dramatiq-streams", "app:prod/1.2", "ü", "x" * 128])
def test_possible_namespace(namespace: str) -> None:
    assert BrokerOptions.of(**{**VALID, "namespace": namespace}).namespace == namespace


@pytest.mark.parametrize(
    "namespace", ["", " ", "a b", "a\n", "a\tb", "{a}", "a}", "\x00", "x" * 129, None, 5, b"a"]
)
def test_impossible_namespace_is_named_with_what_is_allowed(namespace: Any) -> None:
    with pytest.raises(InvalidOption) as raised:
        BrokerOptions.of(**{**VALID, "namespace": namespace})

    assert f"namespace={namespace!r} is not possible" in str(raised.value)
    assert "1 to 128 characters, no spaces and no braces" in str(raised.value)


@pytest.mark.parametrize("name", ["default", "a.b-c_d", "x" * 255, "DQ", "mail.DQ.now"])
def test_possible_queue_name(name: str) -> None:
    assert checked_queue_name(name) == name


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a\n", "{a}", "\x00", "x" * 256, None, 5, b"a", "a:b", "\ud800"]
)
def test_impossible_queue_name_is_named_with_what_is_allowed(name: Any) -> None:
    with pytest.raises(InvalidOption) as raised:
        checked_queue_name(name)

    assert f"queue_name={name!r} is not possible" in str(raised.value)
    assert "1 to 255 characters" in str(raised.value)


@pytest.mark.parametrize("name", ["mail.DQ", "mail.XQ"])
def test_suffixes_of_dramatiq_are_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match=r"must be a name that does not end in \.DQ or \.XQ"):
        checked_queue_name(name)


@pytest.mark.parametrize(
    ("delay", "milliseconds"),
    [(0, 0), (0.0, 0), (1, 1), (1.0, 1), (1.2, 2), (LONGEST_DELAY_MS, LONGEST_DELAY_MS)],
)
def test_delay_is_rounded_up_to_whole_milliseconds(delay: float, milliseconds: int) -> None:
    checked = checked_delay(delay)

    assert checked == milliseconds
    assert isinstance(checked, int)


@pytest.mark.parametrize(
    "delay",
    [
        *(-1, -0.5, LONGEST_DELAY_MS + 1, 10**400, -(10**400), math.nan, math.inf, -math.inf),
        *(None, True, "1", b"1", [1]),
    ],
    ids=lambda delay: repr(delay)[:20],
)
def test_impossible_delay_is_named_with_what_is_allowed(delay: Any) -> None:
    with pytest.raises(InvalidOption) as raised:
        checked_delay(delay)

    assert f"delay={delay!r} is not possible" in str(raised.value)
    assert "from 0 to 10**13" in str(raised.value)


@pytest.mark.parametrize(
    ("eta", "delay"),
    [
        (1_000, 0),
        (1_500, 500),
        (1_000.2, 1),
        (0, 0),
        (-5, 0),
        (10**400, LONGEST_DELAY_MS),
        (1e300, LONGEST_DELAY_MS),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_eta_is_a_delay_from_now_and_never_negative(eta: float, delay: int) -> None:
    assert delay_until(eta, now_ms=1_000) == delay


@pytest.mark.parametrize(
    "eta", ["tomorrow", True, math.nan, math.inf, -math.inf, [1], b"1"], ids=repr
)
def test_eta_that_is_no_instant_is_named_with_what_is_allowed(eta: Any) -> None:
    with pytest.raises(InvalidOption) as raised:
        delay_until(eta, now_ms=1_000)

    assert f"eta={eta!r} is not possible" in str(raised.value)
    assert "milliseconds since 1970, or None" in str(raised.value)


def test_eta_of_none_is_no_delay() -> None:
    assert delay_until(None, now_ms=1_000) is None


@pytest.mark.parametrize(
    ("timeout", "milliseconds"), [(1, 1), (0.1, 1), (999.5, 1_000), (86_400_000, 86_400_000)]
)
def test_timeout_is_rounded_up_to_whole_milliseconds(timeout: float, milliseconds: int) -> None:
    assert checked_timeout(timeout) == milliseconds


@pytest.mark.parametrize(
    "timeout",
    [0, 0.0, -1, math.nan, math.inf, 86_400_001, 10**400, True, None, "1", b"1"],
    ids=lambda timeout: repr(timeout)[:20],
)
def test_impossible_timeout_is_named_with_what_is_allowed(timeout: Any) -> None:
    with pytest.raises(InvalidOption) as raised:
        checked_timeout(timeout)

    assert f"timeout={timeout!r} is not possible" in str(raised.value)
    assert "milliseconds" in str(raised.value)


@pytest.mark.parametrize("prefetch", [1, 2, 65_535])
def test_possible_prefetch(prefetch: int) -> None:
    assert checked_prefetch(prefetch) == prefetch


@pytest.mark.parametrize("prefetch", [0, -1, 65_536, *NO_INTEGERS], ids=repr)
def test_impossible_prefetch_is_named_with_what_is_allowed(prefetch: Any) -> None:
    with pytest.raises(InvalidOption) as raised:
        checked_prefetch(prefetch)

    assert f"prefetch={prefetch!r} is not possible" in str(raised.value)
    assert "from 1 to 65535" in str(raised.value)


@pytest.mark.parametrize("check", [checked_delay, checked_timeout, checked_prefetch])
def test_checks_raise_value_errors_as_python_does(check: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="is not possible"):
        check("x")
