"""Dead letters on the command line: found, sent again, dropped, exported."""

import json
import re
import time
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from dramatiq.errors import ConnectionClosed
from dramatiq.message import Message
from redis import ConnectionPool

from dramatiq_streams import StreamsBroker
from dramatiq_streams.cli.amounts import rate_per_s
from dramatiq_streams.dead_letters import DeadLetters, Outcome, Reason
from dramatiq_streams.executor import Executor
from dramatiq_streams.lanes import DEFAULT_LANES, Lanes
from dramatiq_streams.letters import LetterFilter
from dramatiq_streams.lifetimes import Lifetimes
from dramatiq_streams.scope import Scope
from tests.conftest import MakeWorker
from tests.contract.queue_state import QueueState, new_message
from tests.integration.ops.conftest import RunCommand

HOUR_MS = 3_600_000


class LosesFirstReply(Executor):
    """Loses the reply of the first script that takes effect."""

    def __init__(self, pool: ConnectionPool) -> None:
        super().__init__(pool)
        self.is_lost = False

    def execute(self, *command: Any) -> Any:
        reply = super().execute(*command)
        if command[0].startswith("EVAL") and not self.is_lost:
            self.is_lost = True
            raise ConnectionClosed("The reply was lost.")
        return reply


class Graveyard:
    """Dead letters to find: put there as the broker does."""

    def __init__(self, broker: StreamsBroker, queue: QueueState) -> None:
        self.queue = queue
        # The first use of the queue makes it known.
        broker.enqueue(new_message("first"))
        broker.flush("default")
        self.now_ms = queue.now_ms()

    def bury(self, *args: Any, age_ms: int, reason: str = "failed", **options: Any) -> str:
        """Add a dead letter of this age; returns its id. Oldest first."""
        actor = options.pop("actor", "work")
        error = options.pop("error", "ValueError: no flour")
        message = new_message(*args, actor=actor, **{"retries": 3, "traceback": "T", **options})
        return self.bury_raw(message.encode(), age_ms=age_ms, reason=reason, error=error)

    def bury_raw(self, body: bytes, *, age_ms: int, reason: str, error: str = "") -> str:
        """The same for a body that need not be a message."""
        fields = {"m": body, "reason": reason, "error": error, "lane": "low", "deliveries": 1}
        letter: bytes = self.queue.client.xadd(
            self.queue.keys.dead, fields, id=f"{self.now_ms - age_ms}-1"
        )
        return letter.decode()


@pytest.fixture
def graveyard(broker: StreamsBroker, queue: QueueState) -> Graveyard:
    """No dead letter yet."""
    return Graveyard(broker, queue)


@pytest.fixture
def letters(graveyard: Graveyard) -> dict[str, str]:
    """Four dead letters that differ in all that can be asked for."""
    return {
        "old": graveyard.bury("cake", age_ms=3 * HOUR_MS),
        "mail": graveyard.bury("cake", age_ms=2 * HOUR_MS, actor="mail", error="Bounced"),
        "poison": graveyard.bury("bread", age_ms=HOUR_MS, reason="max_deliveries"),
        "raw": graveyard.bury_raw(b"\xff\xfe", age_ms=1_000, reason="undecodable", error="E"),
    }


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], ["old", "mail", "poison", "raw"]),
        (["--actor", "mail"], ["mail"]),
        (["--actor", "mail", "--actor", "work"], ["old", "mail", "poison"]),
        (["--reason", "max_deliveries"], ["poison"]),
        (["--older-than", "90m"], ["old", "mail"]),
        (["--newer-than", "90m"], ["poison", "raw"]),
        (["--older-than", "90m", "--newer-than", "150m"], ["mail"]),
        (["--text", "BOUNCED"], ["mail"]),
        (["--text", "bread"], ["poison"]),
        (["--text", "no flour", "--actor", "work", "--older-than", "2h"], ["old"]),
        (["--actor", "nobody"], []),
    ],
    ids=str,
)
def test_filters_find_what_fulfils_all_of_them(
    letters: dict[str, str], run: RunCommand, filters: list[str], expected: list[str]
) -> None:
    result = run("dlq", "ls", "--json", *filters)

    assert result.code == 0
    found = [letter["letter"] for letter in result.json["letters"]]
    assert found == [letters[name] for name in expected]


def test_ids_of_messages_and_of_letters_find_them(letters: dict[str, str], run: RunCommand) -> None:
    [mail] = run("dlq", "ls", "--json", "--actor", "mail").json["letters"]

    result = run("dlq", "ls", "--json", "--id", letters["raw"], "--id", mail["message_id"])

    found = [letter["letter"] for letter in result.json["letters"]]
    assert found == [letters["mail"], letters["raw"]]


def test_pages_follow_each_other_without_a_gap(letters: dict[str, str], run: RunCommand) -> None:
    first = run("dlq", "ls", "--json", "--limit", "3").json
    second = run("dlq", "ls", "--json", "--limit", "3", "--after", first["next"]).json

    found = [letter["letter"] for letter in first["letters"] + second["letters"]]
    assert found == list(letters.values())
    assert second["next"] is None


def test_table_shows_no_control_characters(graveyard: Graveyard, run: RunCommand) -> None:
    graveyard.bury("\x1b[31m", age_ms=1, error="line\nbreak \x1b[2J")

    listed, shown = run("dlq", "ls"), run("dlq", "show", "--reason", "failed")

    assert "\x1b" not in listed.out + shown.out
    assert len(listed.out.splitlines()) == 2


def test_what_is_shown_has_times_that_people_read(graveyard: Graveyard, run: RunCommand) -> None:
    graveyard.bury(1, age_ms=2 * HOUR_MS + 60_000)

    shown = run("dlq", "show", "--reason", "failed")

    assert "_ms" not in shown.out.partition("options:")[0]
    assert re.search(
        r"^died: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \(2h1m ago\)$", shown.out, re.MULTILINE
    )
    assert re.search(r"^age: 2h1m$", shown.out, re.MULTILINE)
    assert re.search(r"^sent: \S+Z \(\S+s ago\)$", shown.out, re.MULTILINE)


def test_showing_what_is_not_there_is_a_negative_answer(
    letters: dict[str, str], run: RunCommand
) -> None:
    missing = run("dlq", "show", "--id", "nothing\x1b", "--id", letters["old"])
    as_json = run("dlq", "show", "--id", "nothing", "--id", letters["old"], "--json")
    none = run("dlq", "show", "--actor", "nobody")

    assert (missing.code, as_json.code, none.code) == (1, 1, 1)
    assert missing.out.splitlines()[-1] == r"nothing\x1b: there is no such dead letter"
    assert as_json.json["missing"] == ["nothing"]
    assert [letter["letter"] for letter in as_json.json["letters"]] == [letters["old"]]
    assert none.out == "There is no such dead letter.\n"
    assert run("dlq", "show", "--id", letters["old"]).code == 0


@pytest.mark.parametrize("action", ["ls", "show", "redrive", "purge", "export"])
def test_reason_that_there_is_not_is_refused_with_those_that_there_are(
    letters: dict[str, str], run: RunCommand, action: str
) -> None:
    result = run("dlq", action, "--reason", "bogus")

    assert result.code == 2
    assert [reason for reason in Reason if reason not in result.error] == []


def test_redriven_message_runs_again_with_all_its_retries(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState, run: RunCommand
) -> None:
    retries: list[Any] = []

    @dramatiq.actor(actor_name="work", max_retries=1, min_backoff=1)
    def work() -> None:
        message = dramatiq.middleware.CurrentMessage.get_current_message()
        retries.append(message.options.get("retries", 0))
        raise ZeroDivisionError

    broker.add_middleware(dramatiq.middleware.CurrentMessage())
    sent = work.send_with_options(lane="high")
    make_worker(broker)
    broker.join("default", timeout=5_000)
    [dead] = queue.dead()
    assert Message.decode(dead[b"m".decode()]).message_id == sent.message_id

    result = run("dlq", "redrive", "--actor", "work", "--json")
    broker.join("default", timeout=5_000)

    assert result.json == {"matched": 1, "redriven": 1, "gone": 0, "held": 0, "dry_run": False}
    assert retries == [0, 1, 0, 1]
    [dead] = queue.dead()
    assert Message.decode(dead["m"]).message_id == sent.message_id
    assert dead["lane"] == b"high"


def test_redrive_puts_the_message_into_its_lane_without_traces_of_its_death(
    letters: dict[str, str], queue: QueueState, run: RunCommand
) -> None:
    run("dlq", "redrive", "--id", letters["mail"])

    [message] = queue.entries("low")
    assert (message.actor_name, message.args, message.options) == ("mail", ("cake",), {})
    assert len(queue.dead()) == 3


def test_body_that_is_no_message_is_redriven_as_it_is(
    letters: dict[str, str], queue: QueueState, run: RunCommand
) -> None:
    run("dlq", "redrive", "--reason", "undecodable")

    [(_, fields)] = queue.client.xrange(queue.lane("low"))
    assert fields == {b"m": b"\xff\xfe"}


def test_lane_that_is_no_more_is_replaced_by_the_default_one(
    letters: dict[str, str], run: RunCommand, queue: QueueState
) -> None:
    run("dlq", "redrive", "--id", letters["old"], "--lanes", "high,default")

    assert len(queue.entries("default")) == 1


def test_what_dies_again_meanwhile_is_not_redriven_again(
    broker: StreamsBroker, make_worker: MakeWorker, graveyard: Graveyard, run: RunCommand
) -> None:
    @dramatiq.actor(actor_name="work", max_retries=0)
    def work() -> None:
        raise ZeroDivisionError

    for age_ms in range(300, 0, -1):
        graveyard.bury(age_ms=age_ms)
    make_worker(broker)

    result = run("dlq", "redrive", "--all", "--json", "--rate", "1000/s")

    assert result.json["redriven"] == 300


def test_repeating_a_redrive_whose_reply_was_lost_sends_nothing_twice(
    letters: dict[str, str], broker: StreamsBroker, namespace: str, queue: QueueState
) -> None:
    scope = Scope(namespace, Lanes.of(DEFAULT_LANES), "operator")
    executor = LosesFirstReply(broker.client.connection_pool)
    dead = DeadLetters(executor, scope, lifetimes=Lifetimes())
    [letter] = dead.letters("default", LetterFilter(ids=frozenset({letters["old"]})))

    with pytest.raises(ConnectionClosed):
        dead.redrive(letter)
    again = dead.redrive(letter)

    assert again.outcome is Outcome.GONE
    assert len(queue.messages()) == 1


def test_rate_is_kept(graveyard: Graveyard, run: RunCommand) -> None:
    for age_ms in range(6, 0, -1):
        graveyard.bury(age_ms=age_ms)

    started = time.monotonic()
    run("dlq", "redrive", "--all", "--rate", "10/s")

    assert 0.5 <= time.monotonic() - started < 5


def test_rate_without_a_unit_is_per_second(run: RunCommand) -> None:
    refused = run("dlq", "redrive", "--all", "--rate", "10/d")

    assert [rate_per_s(rate) for rate in ("10", "10/s", "600/m", "36000/h")] == [10] * 4
    assert refused.code == 2
    assert "or without for per second" in refused.error


@pytest.mark.parametrize("action", ["redrive", "purge"])
def test_dry_run_changes_nothing(
    letters: dict[str, str], queue: QueueState, run: RunCommand, action: str
) -> None:
    result = run("dlq", action, "--actor", "work", "--dry-run", "--json")

    assert result.json["matched"] == 2
    assert result.json["dry_run"] is True
    assert (len(queue.dead()), queue.count()) == (4, 0)


@pytest.mark.parametrize("action", ["redrive", "purge"])
@pytest.mark.parametrize("arguments", [[], ["--all", "--actor", "work"]], ids=str)
def test_letters_to_change_have_to_be_chosen(
    letters: dict[str, str], queue: QueueState, run: RunCommand, action: str, arguments: list[str]
) -> None:
    result = run("dlq", action, *arguments)

    assert result.code == 2
    assert "--all" in result.error
    assert len(queue.dead()) == 4


def test_limit_bounds_what_is_changed(
    letters: dict[str, str], queue: QueueState, run: RunCommand
) -> None:
    run("dlq", "redrive", "--all", "--limit", "1")
    result = run("dlq", "purge", "--all", "--limit", "2", "--json")

    assert result.json == {"matched": 2, "purged": 2, "dry_run": False}
    assert [letter["reason"] for letter in queue.dead()] == [b"undecodable"]


def test_purge_drops_what_is_wanted_and_nothing_else(
    letters: dict[str, str], queue: QueueState, run: RunCommand
) -> None:
    result = run("dlq", "purge", "--actor", "work")

    assert result.out == "2 dead letters dropped.\n"
    assert [letter["error"] for letter in queue.dead()] == [b"Bounced", b"E"]


def test_export_is_one_json_object_a_line_with_the_whole_message(
    letters: dict[str, str], run: RunCommand, tmp_path: Path
) -> None:
    file = tmp_path / "dead.jsonl"

    printed, written = run("dlq", "export"), run("dlq", "export", "--out", str(file))

    lines = [json.loads(line) for line in printed.out.splitlines()]
    assert [line["letter"] for line in lines] == list(letters.values())
    assert lines[0]["args"] == ["cake"]
    assert lines[0]["options"] == {"retries": 3, "traceback": "T"}
    assert lines[3]["body"] == "//4="
    assert len(file.read_text().splitlines()) == 4
    assert written.out == ""


def test_export_overwrites_no_file(
    letters: dict[str, str], run: RunCommand, tmp_path: Path
) -> None:
    file = tmp_path / "dead.jsonl"
    file.write_text("precious")

    result = run("dlq", "export", "--out", str(file))

    assert result.code == 2
    assert file.read_text() == "precious"


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_dead_letters_of_a_purged_queue_are_counted(
    graveyard: Graveyard, broker: StreamsBroker, run: RunCommand, options: list[str]
) -> None:
    for age_ms in (2, 1):
        graveyard.bury("cake", age_ms=age_ms)
    broker.enqueue(new_message())
    word = "would be dropped" if options else "dropped"

    tried = run("queue", "purge", "--all", "--dry-run", "--json").json
    printed = run("queue", "purge", "--all", *options)
    left = run("queue", "purge", "--all", "--json").json

    gone = {"queue": "default", "messages": 1, "dead": 2}
    assert tried == {"queues": [gone], "dry_run": True}
    assert printed.out == f"Queue default: 1 message and 2 dead letters {word}.\n"
    assert left["queues"] == [gone if options else {"queue": "default", "messages": 0, "dead": 0}]
