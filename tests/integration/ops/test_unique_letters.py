"""Redriving dead letters whose unique key another message has."""

from typing import Any

import dramatiq

from dramatiq_streams import StreamsBroker
from tests.integration.ops.conftest import RunCommand
from tests.integration.unique.conftest import UniqueKeys


def test_letter_that_stays_is_reported_by_redrive(
    work: dramatiq.Actor[Any, Any],
    broker: StreamsBroker,
    unique_keys: UniqueKeys,
    run: RunCommand,
) -> None:
    successor = work.send(1)
    body = work.message(1).encode()
    fields: Any = {"m": body, "reason": "failed", "lane": "default", "u": "t0:work:1"}
    letter = unique_keys.client.xadd(unique_keys.keys.dead, fields).decode()

    result = run("dlq", "redrive", "--all", "--json")

    assert result.code == 1
    assert result.json == {"matched": 1, "redriven": 0, "gone": 0, "held": 1, "dry_run": False}
    assert letter in result.error
    assert f"message {successor.message_id} has its unique key" in result.error
    assert unique_keys.client.xlen(unique_keys.keys.dead) == 1


def test_dry_run_of_a_redrive_tells_what_would_stay_as_the_run_does(
    work: dramatiq.Actor[Any, Any],
    broker: StreamsBroker,
    unique_keys: UniqueKeys,
    run: RunCommand,
) -> None:
    work.send(1)
    numbers = (1, 2, 2, 3)
    messages = [work.message(number) for number in numbers]
    for number, message in zip(numbers, messages, strict=True):
        fields: Any = {"m": message.encode(), "reason": "failed", "u": f"t0:work:{number}"}
        unique_keys.client.xadd(unique_keys.keys.dead, fields)

    tried = run("dlq", "redrive", "--all", "--dry-run")
    as_json = run("dlq", "redrive", "--all", "--dry-run", "--json").json
    kept = unique_keys.client.xlen(unique_keys.keys.dead)
    done = run("dlq", "redrive", "--all")

    assert (tried.code, done.code) == (1, 1)
    assert tried.out == "2 dead letters would be sent again.\n"
    assert done.out == "2 dead letters sent again.\n"
    assert as_json == {"matched": 4, "redriven": 0, "gone": 0, "held": 2, "dry_run": True}
    assert (kept, unique_keys.client.xlen(unique_keys.keys.dead)) == (4, 2)
    told = tried.error.replace("would stay", "stays").replace(" by then", "")
    assert told == done.error
    assert f"message {messages[1].message_id} has its unique key" in done.error
