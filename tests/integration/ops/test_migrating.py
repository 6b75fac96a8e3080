"""`dramatiq-streams migrate` with a real RedisBroker as the source."""

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from dramatiq.common import current_millis
from dramatiq.message import Message

from dramatiq_streams import StreamsBroker
from dramatiq_streams.migration import moving, source
from dramatiq_streams.options import DEFAULT_NAMESPACE
from tests.conftest import MakeBroker, MakeWorker, StartServer
from tests.contract.queue_state import QueueState
from tests.docs.pages import page
from tests.integration.ops.conftest import Run, RunCommand
from tests.support.keyspace import snapshot
from tests.support.redis_broker import OldBroker
from tests.support.servers import Server

HOUR_MS = 3_600_000

Migrate = Callable[..., Run]


@pytest.fixture
def old(server: Server) -> Iterator[OldBroker]:
    """A RedisBroker with nothing in it, on the server that ours is on."""
    old = OldBroker(server, f"old-{secrets.token_hex(6)}")
    yield old
    old.clean()


@pytest.fixture
def migrate(old: OldBroker, run: RunCommand) -> Migrate:
    """Runs the command from the old broker to this test's namespace."""
    return lambda *arguments: run(
        "migrate", "--from", old.url, "--from-namespace", old.namespace, *arguments
    )


def left(result: Run) -> dict[str, int]:
    """Why messages were left, and how many."""
    return dict(sum((Counter(each["left"]) for each in result.json["queues"]), Counter()))


def test_waiting_messages_come_in_their_order_with_their_ids_and_options(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    sent = [old.send(number, mark=number) for number in range(450)]

    result = migrate()

    assert result.code == 0
    assert queue.entries("default") == sent
    assert old.keys() == set()
    assert "450 messages moved, 0 left." in result.out


def test_delayed_messages_keep_their_eta(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    sent = old.send("later", delay=HOUR_MS)

    migrate()

    [(eta, message)] = queue.delayed()
    assert eta == sent.options["eta"]
    assert (message.message_id, message.queue_name) == (sent.message_id, "default")
    assert old.keys() == set()


def test_eta_that_has_passed_is_due_at_once(
    old: OldBroker, migrate: Migrate, broker: StreamsBroker
) -> None:
    old.send("late", delay=0)

    migrate()

    message = next(broker.consume("default", timeout=1_000))
    assert message is not None
    assert message.args == ("late",)


def test_dead_messages_come_to_the_dead_letters_with_their_traceback(
    old: OldBroker, migrate: Migrate, queue: QueueState, run: RunCommand
) -> None:
    sent = old.fail("cake")

    migrate()

    [letter] = queue.dead()
    message = Message.decode(letter["m"])
    assert (letter["reason"], letter["lane"]) == (b"migrated", b"default")
    assert letter["error"] == b"ZeroDivisionError: no flour"
    assert message.message_id == sent.message_id
    assert "no flour" in message.options["traceback"]
    assert old.keys() == set()
    run("dlq", "redrive", "--reason", "migrated")
    [again] = queue.entries("default")
    assert (again.args, again.options.get("retries")) == (("cake",), None)


def test_dead_letters_that_are_there_do_not_expire_by_it(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    for number in range(300):
        queue.client.xadd(queue.keys.dead, {"m": "old", "reason": "failed"}, id=f"{number + 1}-0")
    old.fail("cake")

    migrate()

    assert len(queue.dead()) == 301


def test_priorities_and_lanes_choose_lanes_as_an_ordinary_send_does(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    for options in ({"priority": -5}, {"priority": 5}, {"lane": "low"}, {"priority": "urgent"}):
        old.send(str(options), **options)

    migrate()

    args = {name: [m.args[0] for m in queue.entries(name)] for name in ("high", "default", "low")}
    assert args == {
        "high": ["{'priority': -5}"],
        "default": ["{'priority': 'urgent'}"],
        "low": ["{'priority': 5}", "{'lane': 'low'}"],
    }


@pytest.mark.usefixtures("make_broker")  # what the module sets is set back
def test_imported_actors_and_broker_tell_priorities_and_lanes(
    old: OldBroker,
    migrate: Migrate,
    queue: QueueState,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    name = f"actors_{secrets.token_hex(4)}"
    (tmp_path / f"{name}.py").write_text(
        "import dramatiq\n"
        "from dramatiq_streams import StreamsBroker\n"
        "dramatiq.set_broker(StreamsBroker(lanes=['fast', 'slow']))\n"
        "@dramatiq.actor(priority=10)\n"
        "def work(): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    old.send("x")

    migrate("--import", name)

    slow = queue.lane("low").replace("lane:low", "lane:slow")
    assert queue.client.xlen(slow) == 1


def test_dry_run_tells_what_a_run_would_do_and_changes_nothing(
    old: OldBroker, migrate: Migrate, redis_client: Any, namespace: str
) -> None:
    for number in range(3):
        old.send(number)
    old.send("later", delay=HOUR_MS)
    old.add_raw(b"no message")
    old.fetch(1)
    before = snapshot(old.client, old.namespace)

    planned, told = migrate("--dry-run", "--json"), migrate("--dry-run")
    changed = snapshot(old.client, old.namespace) != before
    done = migrate("--json")

    assert not changed
    assert redis_client.exists(f"{{{namespace}:default:0}}:lane:default")
    assert planned.code == done.code == 1
    assert planned.json["queues"] == done.json["queues"]
    assert planned.json["moved"] == 3
    assert left(planned) == {"held": 1, "undecodable": 1}
    assert "3 messages would be moved, 2 left." in told.out
    assert planned.json["plan"][0] == {
        "queue": "default",
        "state": "waiting",
        "there": 3,
        "held": 1,
    }


def test_messages_of_living_workers_stay_and_their_acks_take_effect(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    for number in range(3):
        old.send(number)
    held = old.fetch(2)

    result = migrate("--json")
    for message in held.messages:
        held.consumer.ack(message)

    assert (result.code, left(result)) == (1, {"held": 2})
    assert [message.args for message in queue.messages()] == [(2,)]
    assert old.keys() == set()


def test_messages_of_dead_workers_are_taken_over_before_the_others(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    for number in range(3):
        old.send(number)
    old.fetch(1).fall_silent()

    result = migrate("--json")

    assert result.code == 0
    assert [message.args for message in queue.messages()] == [(0,), (1,), (2,)]
    assert old.keys() == set()


def test_heartbeat_timeout_says_who_is_dead(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    old.send(1)
    old.fetch(1).fall_silent(90_000)

    assert migrate("--heartbeat-timeout", "5m").code == 1
    assert migrate("--heartbeat-timeout", "80s").code == 0


def test_what_living_workers_and_nobody_have_can_be_included(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    old.send("held")
    old.send("held till later", delay=HOUR_MS)
    old.send("lost")
    old.client.lpop(f"{old.namespace}:default")
    old.fetch(1)
    old.fetch(1, queue="default.DQ")
    first = migrate("--json")

    second = migrate("--json", "--include-unacked")

    assert left(first) == {"held": 2, "orphaned": 1}
    assert (second.code, second.json["moved"], left(second)) == (0, 3, {})
    assert (len(queue.messages()), len(queue.delayed())) == (2, 1)
    assert old.keys() == set()


def test_what_is_no_message_stays_or_becomes_a_dead_letter(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    bodies = [b"\xff\xfe", b'{"args": 7}']
    for body in bodies:
        old.add_raw(body)
        old.send("between")

    kept = migrate("--json")
    stayed = old.client.llen(f"{old.namespace}:default")
    buried = migrate("--json", "--bury-undecodable")

    assert (kept.code, left(kept), stayed) == (1, {"undecodable": 2}, 2)
    assert (buried.code, left(buried)) == (0, {})
    assert [letter["m"] for letter in queue.dead()] == bodies
    assert {letter["reason"] for letter in queue.dead()} == {b"undecodable"}
    assert len(queue.messages()) == 2


def test_what_is_too_large_stays(old: OldBroker, migrate: Migrate, queue: QueueState) -> None:
    old.send("x" * 2_000)
    old.send("small")

    result = migrate("--json", "--max-message-bytes", "1000")

    assert (result.code, left(result)) == (1, {"too_large": 1})
    assert [message.args for message in queue.messages()] == [("small",)]
    assert migrate().code == 0


def test_pages_have_a_bounded_size(
    old: OldBroker, migrate: Migrate, queue: QueueState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "PAGE_BYTES", 5_000)
    pages: list[int] = []
    fetch = source.Source.bodies

    def noted(self: Any, place: Any, ids: Any) -> Any:
        pages.append(len(ids))
        return fetch(self, place, ids)

    monkeypatch.setattr(source.Source, "bodies", noted)
    for number in range(9):
        old.send(number, "x" * 2_000)

    planned, done = migrate("--dry-run", "--json"), migrate("--json")

    assert planned.json["moved"] == done.json["moved"] == 9
    assert set(pages) == {1, 2}
    assert [message.args[0] for message in queue.messages()] == list(range(9))


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


def test_id_without_a_body_is_passed_over_as_the_old_broker_does(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    old.send(1)
    old.client.rpush(f"{old.namespace}:default", "nothing")

    result = migrate("--json")

    assert (result.code, result.json["moved"], len(queue.messages())) == (0, 1, 1)
    assert old.keys() == set()


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


def test_full_target_loses_nothing_and_the_next_run_goes_on(
    old: OldBroker, run: RunCommand, start_server: StartServer, namespace: str
) -> None:
    full = start_server()
    full.client().config_set("maxmemory-policy", "noeviction")
    full.client().set("load", "x" * 100_000)
    there = ["--from", old.url, "--from-namespace", old.namespace, "--url", full.url]
    old.send("makes the queue known")
    run("migrate", *there)
    full.client().config_set("maxmemory", 1)
    sent = [old.send(number) for number in range(5)]

    refused = run("migrate", *there)
    full.client().config_set("maxmemory", 0)
    elsewhere = run("migrate", *there, "--namespace", f"{namespace}-other")
    planned, done = run("migrate", *there, "--dry-run", "--json"), run("migrate", *there, "--json")

    assert refused.code == 3
    assert (elsewhere.code, namespace in elsewhere.error) == (2, True)
    assert planned.json["moved"] == done.json["moved"] == 5
    assert QueueState(full.client(), namespace).entries("default")[1:] == sent
    assert old.keys() == set()


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


def test_two_at_once_while_old_senders_and_workers_go_on(
    old: OldBroker, migrate: Migrate, make_broker: MakeBroker, make_worker: MakeWorker
) -> None:
    total = 600
    runs: list[tuple[str, int]] = []

    @dramatiq.actor(broker=old.broker, actor_name="work")
    def work_there(number: int) -> None:
        runs.append(("there", number))

    broker = make_broker()

    @dramatiq.actor(broker=broker, actor_name="work")
    def work_here(number: int) -> None:
        runs.append(("here", number))

    for number in range(total // 2):
        work_there.send(number)
    there = make_worker(old.broker, timeout=5)
    sender = threading.Thread(
        target=lambda: [
            work_there.send_with_options(args=(n,), delay=1 if n % 5 == 0 else None)
            for n in range(total // 2, total)
        ]
    )
    sender.start()
    migrations = [threading.Thread(target=_move, args=(old, broker)) for _ in range(2)]
    for thread in migrations:
        thread.start()
    for thread in [*migrations, sender]:
        thread.join(30)
    there.stop()
    # dramatiq's worker does not give back what it had fetched and not looked at yet.
    last = migrate("--json", "--include-unacked")
    make_worker(broker)
    broker.join("default", timeout=20_000)

    assert last.code == 0
    assert Counter(number for _, number in runs) == dict.fromkeys(range(total), 1)
    assert {place for place, _ in runs} == {"there", "here"}
    assert old.keys() == set()


def _move(old: OldBroker, broker: StreamsBroker) -> None:
    from dramatiq_streams.connections import Connections
    from dramatiq_streams.lanes import DEFAULT_LANES, Lanes
    from dramatiq_streams.migration.passages import Judge
    from dramatiq_streams.migration.target import Target

    executors = [
        Connections(url=old.url, client=None, parameters={}).shared(),
        Connections(url=None, client=broker.client, parameters={}).shared(),
    ]
    migration = moving.Migration(
        source.Source(executors[0], old.namespace, heartbeat_timeout_ms=60_000),
        Target(executors[1], broker.namespace, known=(), lanes=Lanes.of(DEFAULT_LANES)),
        Judge(actors={}, max_bytes=10**6),
    )
    for _ in range(20):
        migration.move("default")
    for executor in executors:
        executor.close()


def test_progress_and_the_account_are_told_when_it_is_interrupted(
    old: OldBroker, migrate: Migrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(500):
        old.send(number)
    move = moving.Migration._depart

    def interrupted(self: Any, *arguments: Any) -> bool:
        if self.account.moved:
            raise KeyboardInterrupt
        return move(self, *arguments)

    monkeypatch.setattr(moving.Migration, "_depart", interrupted)

    result = migrate()

    assert result.code == 130
    assert "until then: 200 moved, 0 left" in result.error


def test_eta_of_a_waiting_message_is_obeyed(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    eta = current_millis() + HOUR_MS
    old.send("later", eta=eta)
    old.send("odd", eta="soon")

    migrate()

    assert [found for found, _ in queue.delayed()] == [eta]
    assert [message.args for message in queue.messages()] == [("odd",)]
