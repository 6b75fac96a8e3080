"""`dramatiq-streams locks` while keys come, are prolonged, expire, and have strange names."""

import subprocess

import dramatiq
import pytest
import redis

from dramatiq_streams import StreamsBroker
from dramatiq_streams.keys import record_keys
from dramatiq_streams.middleware.idempotency.records import PAGE, Records, Request
from tests.integration.ops.conftest import HOUR_MS, RunCommand, keys_of, run_under

#: A key whose text could command a terminal, and turn what follows it around.
STRANGE = "work:it's\n\x1b[31mred\x85\u202e\\"


@pytest.mark.parametrize("expired", [10, PAGE, PAGE + 50])
def test_keys_whose_records_have_expired_hide_and_repeat_nothing(
    records: Records, redis_client: redis.Redis, namespace: str, run: RunCommand, expired: int
) -> None:
    keys = record_keys(namespace, "idempotency")
    for number in range(expired):
        run_under(records, f"dead:{number}", "m")
        redis_client.delete(keys.record(f"dead:{number}"))
    for number in range(5):
        run_under(records, f"work:{number}", "m")
    living = [f"work:{number}" for number in range(5)]

    listed = keys_of(run("locks", "ls", "--json", "--limit", "1000"))
    by_actor = keys_of(run("locks", "ls", "--json", "--actor", "work"))
    released = run("locks", "release", "--all", "--json")

    assert (listed, by_actor, keys_of(released)) == (living, living, living)
    assert {lock["outcome"] for lock in released.json["locks"]} == {"released"}
    assert records.held() == []


def test_key_that_runs_all_the_time_is_listed_once_however_often_leases_are_prolonged(
    records: Records, run: RunCommand
) -> None:
    requests = [Request(f"work:{n}", "a", f"m{n}", HOUR_MS) for n in range(6)]
    tokens = []
    for number, request in enumerate(requests):
        started = records.start(request, owner="o", consumer="c", lease_ms=1_000 + number)
        tokens.append(started.token)
    held = list(zip(requests, tokens, strict=True))

    found: list[str] = []
    after: list[str] = []
    for lease_ms in range(2_000, 60_000, 10):  # those that were listed, and then the others
        result = run("locks", "ls", "--json", "--limit", "1", *after)
        found += keys_of(result)
        if result.json["next"] is None:
            break
        after = ["--after", result.json["next"]]
        records.keep(held[: len(found)], lease_ms=lease_ms + 5)
        records.keep(held[len(found) :], lease_ms=lease_ms)

    assert found == [request.key for request in requests]


def test_key_that_ends_while_it_is_listed_is_not_shown_as_running(
    records: Records, redis_client: redis.Redis, namespace: str
) -> None:
    for number in range(PAGE + 1):
        run_under(records, f"work:{number:03}", "m")
    last = f"work:{PAGE:03}"

    walk = records.each_held()
    first = next(walk)
    records.release(last)

    assert [first.key, *(record.key for record in walk)] == [f"work:{n:03}" for n in range(PAGE)]


@pytest.mark.parametrize("action", [["ls"], ["release", "--dry-run"], ["release"]])
def test_queue_chooses_no_idempotency_keys(
    broker: StreamsBroker, records: Records, run: RunCommand, action: list[str]
) -> None:
    dramatiq.actor(actor_name="other", queue_name="slow", broker=broker)(lambda: None).send()
    run_under(records, "work:1", "m")

    result = run("locks", *action, "--kind", "idempotency", "--queue", "slow")

    assert result.code == 2
    assert "belong to no queue" in result.error
    assert [record.key for record in records.held()] == ["work:1"]


def test_actors_are_found_by_their_own_names(records: Records, run: RunCommand) -> None:
    # As the key of an actor is made: its first colon ends the name.
    run_under(records, "shop%3Abill:7", "m")
    run_under(records, "100%25%3A%253A:7", "m")

    [bill] = run("locks", "ls", "--json", "--actor", "shop:bill").json["locks"]
    [percent] = run("locks", "ls", "--json", "--actor", "100%:%3A").json["locks"]

    assert (bill["actor"], bill["key"]) == ("shop:bill", "shop%3Abill:7")
    assert percent["actor"] == "100%:%3A"


def test_nothing_that_is_printed_commands_the_terminal(
    broker: StreamsBroker, records: Records, run: RunCommand
) -> None:
    unique = dramatiq.actor(
        actor_name="work", broker=broker, unique_for=HOUR_MS, idempotency_key="{text}"
    )(lambda text: None)
    unique.send(STRANGE.removeprefix("work:"))
    run_under(records, STRANGE, "m\x1b")
    run_under(records, "x:1", "m")

    printed = [
        run("locks", *arguments).out
        for arguments in (
            ["ls"], ["ls", "--limit", "1"], ["ls", "--limit", "2"], ["show", STRANGE],
            ["show", "\x1b:"], ["release", STRANGE, "--dry-run"], ["release", "\x1b:"],
            ["release", "--all"],
        )
    ]  # fmt: skip
    printed.append(run("messages", "show", "\x1b:").out + run("messages", "cancel", "\x1b:").out)

    assert [text for text in printed if not text.replace("\n", "").isprintable()] == []
    assert all("\\x1b" in text or "\\U0000001b" in text for text in printed)


@pytest.mark.parametrize("kind", ["unique", "idempotency"])
def test_next_page_of_a_strange_key_can_be_copied_into_a_shell(
    broker: StreamsBroker, records: Records, run: RunCommand, kind: str
) -> None:
    unique = dramatiq.actor(
        actor_name="work", broker=broker, unique_for=HOUR_MS, idempotency_key="{text}"
    )(lambda text: None)
    for text in (STRANGE.removeprefix("work:"), "z"):
        unique.send(text)
        run_under(records, f"work:{text}", "m")
    first = run("locks", "ls", "--kind", kind, "--limit", "1", "--json")

    printed = run("locks", "ls", "--kind", kind, "--limit", "1").out.splitlines()[-1]
    option = printed.partition("--after ")[2]
    shell = subprocess.run(
        ["bash", "-c", f"printf %s {option}"], capture_output=True, text=True, check=True
    )

    assert shell.stdout == first.json["next"]
    second = run("locks", "ls", "--kind", kind, "--after", shell.stdout, "--json")
    assert keys_of(first) + keys_of(second) == [STRANGE, "work:z"]


@pytest.mark.parametrize("prefix", ["a b", "}", "", "a:b"])
@pytest.mark.parametrize("action", [["ls"], ["show", "k:1"], ["release", "--all"]])
def test_prefix_that_no_middleware_can_have_is_refused(
    run: RunCommand, prefix: str, action: list[str]
) -> None:
    result = run("locks", *action, "--key-prefix", prefix)

    assert result.code == 2
    assert f"key_prefix={prefix!r} is not possible" in result.error


def test_lease_that_has_ended_is_told_as_other_times_are(
    records: Records, redis_client: redis.Redis, namespace: str, run: RunCommand
) -> None:
    run_under(records, "work:1", "m")
    record = record_keys(namespace, "idempotency").record("work:1")
    redis_client.hincrby(record, "lease_end_ms", -4 * 86_400_000 - 3_600_000)

    listed, shown = run("locks", "ls").out, run("locks", "show", "work:1").out

    assert "  4d" in listed
    assert " ago" in listed
    assert "-" not in listed.splitlines()[1].partition("work:1")[2].partition("running")[0]
    assert "ends_in: 4d" in shown
