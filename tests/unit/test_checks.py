import dataclasses
from typing import Any

import pytest

from dramatiq_streams.checks import Facts, Level, findings

GOOD = Facts(
    product="valkey",
    version="9.1.4",
    maxmemory=100_000_000,
    maxmemory_policy="noeviction",
    has_append_only_file=True,
    has_save_points=False,
    replicas=1,
    waits_for_replicas=True,
    evicts_clients=True,
    clock_ahead_ms=20.0,
)


def codes(**changes: Any) -> list[str]:
    return [finding.code for finding in findings(dataclasses.replace(GOOD, **changes))]


def test_good_server_has_no_findings() -> None:
    assert codes() == []


def test_what_a_server_does_not_tell_is_not_held_against_it() -> None:
    assert findings(Facts()) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"maxmemory_policy": "allkeys-lru"}, "eviction"),
        ({"maxmemory_policy": "volatile-ttl"}, "eviction"),
        ({"has_append_only_file": False}, "persistence"),
        ({"waits_for_replicas": False}, "replication"),
        ({"version": "8.1.3"}, "version"),
        ({"clock_ahead_ms": 5_001.0}, "clock"),
        ({"clock_ahead_ms": -5_001.0}, "clock"),
    ],
)
def test_each_flaw_is_found_and_comes_with_advice(changes: dict[str, Any], code: str) -> None:
    (finding,) = findings(dataclasses.replace(GOOD, **changes))

    assert finding.code == code
    assert finding.message.endswith(".")
    assert finding.advice.endswith(".")


@pytest.mark.parametrize(
    "changes",
    [
        {"maxmemory": 0, "maxmemory_policy": "allkeys-lru"},
        {"has_append_only_file": False, "has_save_points": True},
        {"has_append_only_file": False, "has_save_points": None},
        {"replicas": 0, "waits_for_replicas": False},
        {"version": "8.1.3", "product": ""},
        {"version": "unknown"},
        {"version": ""},
        {"clock_ahead_ms": -5_000.0},
    ],
    ids=str,
)
def test_harmless_settings_are_not_found(changes: dict[str, Any]) -> None:
    assert codes(**changes) == []


def test_eviction_of_messages_is_an_error_and_comes_first() -> None:
    facts = dataclasses.replace(GOOD, has_append_only_file=False, maxmemory_policy="allkeys-lfu")

    assert [(f.level, f.code) for f in findings(facts)] == [
        (Level.ERROR, "eviction"),
        (Level.WARNING, "persistence"),
    ]


def test_clock_is_said_to_be_on_the_right_side() -> None:
    (ahead,) = findings(dataclasses.replace(GOOD, clock_ahead_ms=60_000.0))
    (behind,) = findings(dataclasses.replace(GOOD, clock_ahead_ms=-60_000.0))

    assert "60 s behind the server's" in ahead.message
    assert "60 s ahead of the server's" in behind.message
