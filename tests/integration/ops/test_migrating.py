"""`dramatiq-streams migrate` with a real RedisBroker as the source."""

import secrets
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from dramatiq.common import current_millis
from dramatiq.message import Message

from dramatiq_streams import StreamsBroker
from dramatiq_streams.migration import moving, source
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import QueueState
from tests.integration.ops.conftest import Migrate, RunCommand, left
from tests.support.keyspace import snapshot
from tests.support.redis_broker import OldBroker

HOUR_MS = 3_600_000


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
