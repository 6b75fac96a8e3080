"""`dramatiq-streams locks`: the keys that messages have, and those under which something runs."""

from typing import Any

import dramatiq
import pytest

from dramatiq_streams import StreamsBroker
from dramatiq_streams.middleware.idempotency.records import Records
from dramatiq_streams.reservations import PAGE
from tests.integration.ops.conftest import RunCommand, keys_of, run_under
from tests.integration.unique.conftest import UniqueKeys

HOUR_MS = 3_600_000


@pytest.fixture
def other(broker: StreamsBroker) -> dramatiq.Actor[Any, Any]:
    """Another one, on another queue."""
    return dramatiq.actor(
        actor_name="other",
        queue_name="mail",
        broker=broker,
        unique_for=30_000,
        idempotency_key="{to}",
    )(lambda to: None)


def test_locks_of_both_kinds_are_listed(
    work: dramatiq.Actor[Any, Any],
    other: dramatiq.Actor[Any, Any],
    records: Records,
    run: RunCommand,
) -> None:
    first, mail = work.send(1), other.send("ann")
    run_under(records, "page:7", "m7")

    result = run("locks", "ls", "--json")

    locks = result.json["locks"]
    assert result.code == 0
    assert [(lock["kind"], lock["queue"], lock["key"], lock["actor"]) for lock in locks] == [
        ("unique", "default", "work:1", "work"),
        ("unique", "mail", "other:ann", "other"),
        ("idempotency", None, "page:7", "page"),
    ]
    assert [lock["message_id"] for lock in locks] == [first.message_id, mail.message_id, "m7"]
    assert 0 < locks[1]["ends_in_ms"] <= 30_000
    assert (locks[2]["state"], locks[2]["worker"]) == ("running", "host:1:abc")
    assert result.json["next"] is None


def test_table_is_for_people(
    work: dramatiq.Actor[Any, Any], records: Records, run: RunCommand
) -> None:
    first = work.send(1)
    run_under(records, "page:7", "m7")

    lines = run("locks", "ls").out.splitlines()

    assert lines[0].split() == ["kind", "queue", "key", "message", "ends", "in", "state", "worker"]
    assert lines[1].split()[:4] == ["unique", "default", "work:1", first.message_id]
    assert lines[2].split()[:4] == ["idempotency", "-", "page:7", "m7"]


def test_what_is_free_or_over_is_not_listed(
    work: dramatiq.Actor[Any, Any], broker: StreamsBroker, unique_keys: UniqueKeys, run: RunCommand
) -> None:
    for number in range(3):
        work.send(number)
    unique_keys.end("work:0")
    run("locks", "release", "work:1")

    assert keys_of(run("locks", "ls", "--json")) == ["work:2"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--kind", "unique"], ["work:1", "work:22", "other:22"]),
        (["--kind", "idempotency"], ["work:1"]),
        (["--queue", "mail"], ["other:22"]),
        (["--actor", "work"], ["work:1", "work:22", "work:1"]),
        (["--actor", "other", "--actor", "nobody"], ["other:22"]),
        (["--text", ":22"], ["work:22", "other:22"]),
        (["--text", "M7"], ["work:1"]),
        (["--text", ":22", "--actor", "work"], ["work:22"]),
        (["--key-prefix", "elsewhere", "--kind", "idempotency"], []),
    ],
)
def test_filters(
    *,
    work: dramatiq.Actor[Any, Any],
    other: dramatiq.Actor[Any, Any],
    records: Records,
    run: RunCommand,
    options: list[str],
    expected: list[str],
) -> None:
    work.send(1)
    work.send(22)
    other.send("22")
    run_under(records, "work:1", "m7")

    assert keys_of(run("locks", "ls", "--json", *options)) == expected


def test_pages_follow_each_other_over_queues_and_kinds(
    work: dramatiq.Actor[Any, Any],
    other: dramatiq.Actor[Any, Any],
    records: Records,
    run: RunCommand,
) -> None:
    for number in range(5):
        work.send(number)
        other.send(str(number))
        run_under(records, f"r:{number}", "m")

    found: list[str] = []
    after: list[str] = []
    while True:
        result = run("locks", "ls", "--json", "--limit", "4", *after)
        found += keys_of(result)
        if result.json["next"] is None:
            break
        after = ["--after", result.json["next"]]

    everything = [f"{name}:{number}" for name in ("work", "other", "r") for number in range(5)]
    assert found == everything


def test_more_keys_than_one_fetch_brings_that_end_at_the_same_instant(
    work: dramatiq.Actor[Any, Any],
    broker: StreamsBroker,
    unique_keys: UniqueKeys,
    run: RunCommand,
) -> None:
    count = 2 * PAGE + 7
    broker.enqueue_many([work.message(number) for number in range(count)])
    client, keys = unique_keys.client, unique_keys.keys
    client.zadd(keys.unique, {f"work:{number}": 10**13 for number in range(count)})

    found = keys_of(run("locks", "ls", "--json", "--limit", "10000"))

    assert sorted(found) == sorted(f"work:{number}" for number in range(count))


@pytest.mark.parametrize(
    "cursor",
    ["nonsense", "unique", "idempotency:x", "idempotency:99999999999999999999999", "unique:no:1:k"],
)
def test_cursor_of_nowhere_is_wrong_usage(
    work: dramatiq.Actor[Any, Any], run: RunCommand, cursor: str
) -> None:
    work.send(1)

    result = run("locks", "ls", "--after", cursor)

    assert result.code == 2
    assert "after=" in result.error


def test_all_that_is_known_is_shown(
    work: dramatiq.Actor[Any, Any], records: Records, run: RunCommand
) -> None:
    first = work.send(1)
    run_under(records, "work:1", "m7")

    result = run("locks", "show", "work:1")

    assert result.code == 0
    assert f"message_id: {first.message_id}" in result.out
    assert "kind: unique" in result.out
    assert "kind: idempotency" in result.out
    assert "token: 1" in result.out


def test_missing_keys_are_named(work: dramatiq.Actor[Any, Any], run: RunCommand) -> None:
    work.send(1)

    result = run("locks", "show", "work:1", "work:2", "--json")

    assert result.code == 1
    assert keys_of(result) == ["work:1"]
    assert result.json["missing"] == ["work:2"]
    assert "work:2: nobody has this key" in run("locks", "show", "work:2").out


def test_released_key_is_for_the_next_message_and_the_first_one_stays(
    work: dramatiq.Actor[Any, Any], broker: StreamsBroker, run: RunCommand
) -> None:
    first = work.send(1)

    result = run("locks", "release", "work:1", "--json")
    second = work.send(1)

    assert result.code == 0
    assert result.json == {
        "locks": [
            {
                "key": "work:1",
                "kind": "unique",
                "queue": "default",
                "message_id": first.message_id,
                "outcome": "released",
            }
        ],
        "dry_run": False,
    }
    assert second.message_id != first.message_id
    assert broker._process.queues.size("default") == 2


def test_released_record_lets_the_next_message_run(records: Records, run: RunCommand) -> None:
    run_under(records, "work:1", "m7")

    result = run("locks", "release", "work:1", "--kind", "idempotency")

    assert result.code == 0
    assert records.held() == []


def test_key_that_was_released_is_missing_and_shown_as_free(
    records: Records, run: RunCommand
) -> None:
    run_under(records, "work:1", "m7")
    first = run("locks", "release", "work:1")

    tried = run("locks", "release", "work:1", "--dry-run")
    second = run("locks", "release", "work:1")
    shown = run("locks", "show", "work:1")

    assert (first.code, first.out.splitlines()[-1]) == (0, "1 key released.")
    assert (tried.code, tried.out.splitlines()[-1]) == (1, "0 keys would be released.")
    assert (second.code, second.out.splitlines()[-1]) == (1, "0 keys released.")
    assert "work:1: nobody has this key" in second.out
    assert "state: pending (free" in shown.out
    assert run("locks", "show", "work:1", "--json").json["locks"][0]["state"] == "pending"


def test_filter_that_finds_nothing_says_which_keys_it_cannot_find(
    records: Records, run: RunCommand
) -> None:
    run_under(records, "work:1", "m7")

    result = run("locks", "release", "--actor", "other")

    assert result.code == 0
    assert "0 keys released.\nIdempotency keys that are done or have failed" in result.out


def test_key_that_nobody_has_is_no_success(work: dramatiq.Actor[Any, Any], run: RunCommand) -> None:
    work.send(1)

    result = run("locks", "release", "work:1", "work:2")

    assert result.code == 1
    assert "work:2: nobody has this key" in result.out
    assert "1 key released." in result.out


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--all"], []),
        (["--actor", "work"], ["other:1"]),
        (["--queue", "mail"], ["work:0", "work:1", "r:1"]),
        (["--kind", "idempotency"], ["work:0", "work:1", "other:1"]),
        (["--text", ":1"], ["work:0"]),
    ],
)
def test_many_are_released_by_a_filter(
    *,
    work: dramatiq.Actor[Any, Any],
    other: dramatiq.Actor[Any, Any],
    records: Records,
    run: RunCommand,
    options: list[str],
    left: list[str],
) -> None:
    work.send(0)
    work.send(1)
    other.send("1")
    run_under(records, "r:1", "m")
    if options == ["--actor", "work"]:
        records.release("r:1")

    result = run("locks", "release", *options)

    assert result.code == 0
    assert keys_of(run("locks", "ls", "--json")) == left


def test_more_than_one_fetch_brings_are_released(
    work: dramatiq.Actor[Any, Any], broker: StreamsBroker, run: RunCommand
) -> None:
    broker.enqueue_many([work.message(number) for number in range(PAGE + 50)])

    result = run("locks", "release", "--all")

    assert f"{PAGE + 50} keys released." in result.out
    assert keys_of(run("locks", "ls", "--json")) == []


@pytest.mark.parametrize("options", [["--all"], ["work:1"], ["--actor", "work"]])
def test_dry_run_releases_nothing(
    work: dramatiq.Actor[Any, Any], run: RunCommand, options: list[str]
) -> None:
    work.send(1)

    result = run("locks", "release", *options, "--dry-run")

    assert result.code == 0
    assert result.out.splitlines() == ["work:1: would be released", "1 key would be released."]
    assert keys_of(run("locks", "ls", "--json")) == ["work:1"]


@pytest.mark.parametrize("options", [[], ["--all", "work:1"], ["--all", "--actor", "work"]])
def test_which_keys_has_to_be_said_in_one_way(run: RunCommand, options: list[str]) -> None:
    result = run("locks", "release", *options)

    assert result.code == 2
    assert "by name, by a filter, or --all" in result.error


def test_queue_of_unique_messages_is_looked_at_like_any_other(
    work: dramatiq.Actor[Any, Any], run: RunCommand
) -> None:
    work.send(1)
    delayed = work.send_with_options(args=(2,), delay=HOUR_MS)

    ready = run("messages", "ls", "--json").json["messages"]
    later = run("messages", "ls", "--state", "delayed", "--json").json["messages"]

    assert [message["args"] for message in ready] == [[1]]
    assert [(message["args"], message["message_id"]) for message in later] == [
        ([2], delayed.message_id)
    ]
    assert run("messages", "cancel", delayed.message_id).code == 0
    assert keys_of(run("locks", "ls", "--json")) == ["work:1"]
