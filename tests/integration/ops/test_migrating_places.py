"""`dramatiq-streams migrate`: which queues, from where, and with which rights."""

import pytest

from dramatiq_streams.options import DEFAULT_NAMESPACE
from tests.conftest import StartServer
from tests.docs.pages import page
from tests.integration.ops.conftest import Migrate, RunCommand
from tests.support.redis_broker import OldBroker
from tests.support.servers import Server

HOUR_MS = 3_600_000


def test_queues_are_found_or_named(
    old: OldBroker, migrate: Migrate, server: Server, run: RunCommand
) -> None:
    for name in ("a", "b.c", "d"):
        old.send(1, queue=name)
    old.send(1, queue="only-delayed", delay=HOUR_MS)
    neighbour = OldBroker(server, f"{old.namespace}:x")
    neighbour.send(1)

    named = migrate("--json", "--queue", "d")
    found = migrate("--json")

    assert {each["queue"] for each in named.json["queues"] if each["found"]} == {"d"}
    assert {each["queue"] for each in found.json["queues"] if each["found"]} == {
        "a",
        "b.c",
        "only-delayed",
    }
    known = {each["queue"] for each in run("stats", "--json").json["queues"]}
    assert known == {"a", "b.c", "d", "only-delayed"}
    assert neighbour.keys() == {"default", "default.msgs"}


@pytest.mark.parametrize("arguments", [(), ("--dry-run",), ("--json",)], ids=str)
def test_named_queue_that_the_old_broker_does_not_have_is_told(
    old: OldBroker, migrate: Migrate, run: RunCommand, arguments: tuple[str, ...]
) -> None:
    old.send(1)

    result = migrate("--queue", "defualt", "--queue", "default", *arguments)

    assert result.code == 1
    known = {each["queue"] for each in run("stats", "--json").json["queues"]}
    assert known == (set() if "--dry-run" in arguments else {"default"})
    assert result.error == "dramatiq-streams: RedisBroker has no trace of queue 'defualt'.\n"


def test_named_queue_that_was_moved_before_is_well(old: OldBroker, migrate: Migrate) -> None:
    old.send(1)

    results = [migrate("--queue", "default") for _ in range(2)]

    assert [(result.code, result.error) for result in results] == [(0, "")] * 2


def test_nothing_is_left_to_do_the_second_time(old: OldBroker, migrate: Migrate) -> None:
    old.send(1)
    migrate()

    again = migrate("--json")

    assert (again.code, again.json["moved"], again.json["left"]) == (0, 0, 0)


def test_namespace_that_no_old_broker_has_used_is_told(run: RunCommand, server: Server) -> None:
    result = run("migrate", "--from", server.admin_url, "--from-namespace", "nobodys")

    assert result.code == 1
    assert "never a RedisBroker in namespace 'nobodys'" in result.error


def test_namespace_of_the_old_broker_is_not_taken_for_ours(run: RunCommand, server: Server) -> None:
    result = run("migrate", "--from", server.url, "--namespace", "dramatiq")

    assert result.code == 2
    assert "--from-namespace dramatiq" in result.error


@pytest.mark.parametrize(
    "arguments",
    [
        ["--from", "http://x"],
        ["--from", "redis://x", "--queue", "a.DQ"],
        ["--from", "redis://x", "--from-namespace", "a b"],
        ["--from", "redis://x", "--lanes", "a,a"],
        ["--from", "redis://x", "--heartbeat-timeout", "60"],
        [],
    ],
    ids=str,
)
def test_bad_values_are_wrong_usage(run: RunCommand, arguments: list[str]) -> None:
    assert run("migrate", *arguments).code == 2


def test_source_that_cannot_be_reached_is_told(run: RunCommand, free_port: int) -> None:
    assert run("migrate", "--from", f"redis://127.0.0.1:{free_port}").code == 3


def test_documented_rights_suffice(run: RunCommand, start_server: StartServer) -> None:
    theirs, ours = start_server(), start_server()
    old = OldBroker(theirs, "dramatiq")
    old.fail("cake")
    for number in range(3):
        old.send(number)
        old.send(number, delay=HOUR_MS)
    old.fetch(1).fall_silent()
    old.fetch(1)
    blocks = [block.text for block in page("docs/explanation/security.md").blocks]
    (needed,) = [text.split() for text in blocks if text.startswith("+scan")]
    (user,) = [text.split()[3:] for text in blocks if text.startswith("ACL SETUSER")]
    _add_user(theirs, ["reset", "on", ">PASSWORD", "~dramatiq:*", "-@all", *needed])
    _add_user(ours, user)
    where = ["--from", _url(theirs), "--url", _url(ours), "--namespace", DEFAULT_NAMESPACE]

    codes = [run("migrate", *where, *more).code for more in ([], ["--include-unacked"], [])]

    assert codes == [1, 0, 0]
    used = {name.partition("|")[0] for name in _used(theirs)}
    assert {name.removeprefix("+") for name in needed} - used == set()


def _add_user(server: Server, rules: list[str]) -> None:
    client = server.client()
    if client.info("server")["redis_version"].startswith("7.0"):
        rules = [rule for rule in rules if rule != "+client|setinfo"]
    client.execute_command("ACL", "SETUSER", "migrant", *rules)
    client.config_resetstat()


def _used(server: Server) -> set[str]:
    return {name.removeprefix("cmdstat_") for name in server.client().info("commandstats")}


def _url(server: Server) -> str:
    return f"unix://migrant:PASSWORD@{server.socket}"
