"""Cancelled messages do not run, whichever way they would have reached a worker."""

import threading

import dramatiq
import pytest

from dramatiq_streams import StreamsBroker
from dramatiq_streams.connections import Connections
from dramatiq_streams.keys import GROUP
from dramatiq_streams.lanes import DEFAULT_LANES, Lanes
from dramatiq_streams.queues import Queues
from dramatiq_streams.scope import Scope
from tests.conftest import MakeWorker
from tests.contract.conftest import StartConsumer, start_consumer  # noqa: F401
from tests.contract.queue_state import QueueState, new_message
from tests.integration.ops.conftest import RunCommand
from tests.support.servers import Server
from tests.support.waiting import wait_until


class NoAlarm:
    """Nothing to do while a read blocks."""

    def seconds_left(self) -> float:
        return 60.0

    def ring(self) -> None:
        raise AssertionError("It does not ring.")


@pytest.fixture
def done(broker: StreamsBroker) -> list[str]:
    """What the actor `work` has worked on."""
    names: list[str] = []
    dramatiq.actor(actor_name="work")(names.append)
    return names


def cancelled(run: RunCommand) -> int:
    number: int = run("stats", "--json").json["queues"][0]["cancelled"]
    return number


def test_waiting_message_does_not_run_and_is_counted(
    broker: StreamsBroker,
    make_worker: MakeWorker,
    queue: QueueState,
    done: list[str],
    run: RunCommand,
) -> None:
    kept = broker.enqueue(new_message("kept", lane="low"))
    message = broker.enqueue(new_message("cancelled", lane="low"))

    result = run("messages", "cancel", message.message_id, "--json")

    assert result.code == 0
    assert result.json["messages"][0]["outcome"] == "cancelled"
    assert queue.entries("low") == [kept, message]  # not deleted before its turn
    headings, row = run("stats").out.splitlines()[:2]
    assert row[headings.index("cancelling") :][: len("cancelling")].strip() == "1"
    make_worker(broker)
    broker.join("default", timeout=5_000)
    assert done == ["kept"]
    assert cancelled(run) == 1
    assert queue.dead() == []


def test_delayed_message_goes_at_once(
    broker: StreamsBroker, queue: QueueState, run: RunCommand
) -> None:
    message = broker.enqueue(new_message("cancelled"), delay=60_000)

    result = run("messages", "cancel", message.message_id)

    assert result.code == 0
    assert queue.count() == 0
    assert queue.client.hlen(queue.keys.delayed_messages) == 0
    assert cancelled(run) == 1


def test_running_message_goes_on_and_the_exit_code_tells(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState, run: RunCommand
) -> None:
    started, proceed, ended = threading.Event(), threading.Event(), threading.Event()

    @dramatiq.actor(actor_name="work")
    def work() -> None:
        started.set()
        proceed.wait(20)
        ended.set()

    message = work.send()
    make_worker(broker)
    assert started.wait(5)

    result = run("messages", "cancel", message.message_id, "--json")
    proceed.set()

    assert result.code == 1
    [told] = result.json["messages"]
    assert told["outcome"] == "held"
    assert told["consumer"] in queue.consumers()
    assert ended.wait(5)
    broker.join("default", timeout=5_000)
    # Its mark is forgotten, though nobody will ever read the entry.
    work.send()
    wait_until(lambda: not queue.client.exists(queue.keys.cancelled))
    assert cancelled(run) == 0


def test_message_that_comes_back_from_its_worker_is_not_delivered_again(
    broker: StreamsBroker,
    start_consumer: StartConsumer,  # noqa: F811
    queue: QueueState,
    run: RunCommand,
) -> None:
    sent = broker.enqueue(new_message("cancelled"))
    consumer = start_consumer(broker, timeout=200)
    message = next(consumer)
    assert message is not None

    run("messages", "cancel", sent.message_id)
    consumer.requeue([message])

    assert next(consumer) is None
    assert queue.count() == 0
    assert cancelled(run) == 1


def test_message_is_dropped_also_when_a_blocking_read_delivers_it(
    server: Server, namespace: str, broker: StreamsBroker, queue: QueueState, run: RunCommand
) -> None:
    connection = Connections(url=server.url, client=None, parameters={}).dedicated(blocking_ms=100)
    queues = Queues(connection, Scope(namespace, Lanes.of(DEFAULT_LANES), "me"))
    queues.ensure_groups("default")
    message = broker.enqueue(new_message("cancelled"))
    kept = broker.enqueue(new_message("kept", lane="low"))
    run("messages", "cancel", message.message_id)

    # As a consumer does that found nothing a moment ago, and was stopped in between.
    blocked = queues.read_blocking("default", 100, alarm=NoAlarm())

    connection.close()
    assert [entry.lane for entry in blocked.entries] == [3]
    assert queue.messages() == [kept]
    assert cancelled(run) == 1


def test_dry_run_only_says_what_would_happen(
    broker: StreamsBroker, queue: QueueState, run: RunCommand
) -> None:
    waiting = broker.enqueue(new_message("waiting"))
    delayed = broker.enqueue(new_message("delayed"), delay=60_000)

    result = run("messages", "cancel", waiting.message_id, delayed.message_id, "--dry-run")

    assert result.code == 0
    assert result.out.count("would be cancelled") == 2
    assert queue.count() == 2
    assert not queue.client.exists(queue.keys.cancelled)


def test_message_that_is_not_there_is_a_negative_answer(
    broker: StreamsBroker, run: RunCommand
) -> None:
    broker.enqueue(new_message("other"))

    result = run("messages", "cancel", "no-such-id", "--json")

    assert result.code == 1
    assert [told["outcome"] for told in result.json["messages"]] == ["missing"]


def test_search_ends_at_its_limit_and_says_so(broker: StreamsBroker, run: RunCommand) -> None:
    messages = [broker.enqueue(new_message(str(number))) for number in range(5)]

    result = run("messages", "cancel", messages[-1].message_id, "--limit", "3")

    assert result.code == 1
    assert "--limit" in result.out


def test_id_in_the_arguments_of_another_message_is_not_that_message(
    broker: StreamsBroker, queue: QueueState, run: RunCommand
) -> None:
    message = broker.enqueue(new_message("first"))
    other = broker.enqueue(new_message(message.message_id))

    run("messages", "cancel", message.message_id)

    [mark] = queue.client.zrange(queue.keys.cancelled, 0, -1)
    lane, _, entry = mark.decode().partition(":")
    [(_, fields)] = queue.client.xrange(queue.lane(lane), entry, entry)
    assert dramatiq.Message.decode(fields[b"m"]) == message != other


def test_many_cancelled_messages_in_front_do_not_hold_up_the_next_one(
    broker: StreamsBroker, make_worker: MakeWorker, done: list[str], run: RunCommand
) -> None:
    messages = broker.enqueue_many([new_message("cancelled") for _ in range(60)])
    broker.enqueue(new_message("kept"))
    run("messages", "cancel", *(message.message_id for message in messages))

    make_worker(broker)
    broker.join("default", timeout=5_000)

    assert done == ["kept"]
    assert cancelled(run) == 60


def test_server_counts_deliveries_rightly_in_spite_of_it(
    broker: StreamsBroker,
    make_worker: MakeWorker,
    queue: QueueState,
    done: list[str],
    run: RunCommand,
) -> None:
    message = broker.enqueue(new_message("cancelled"))
    broker.enqueue(new_message("kept"))
    run("messages", "cancel", message.message_id)

    make_worker(broker)
    broker.join("default", timeout=5_000)

    groups = {g["name"]: g for g in queue.client.xinfo_groups(queue.lane("default"))}
    if "entries-read" in groups[GROUP.encode()]:
        assert groups[GROUP.encode()]["entries-read"] == 2
        assert groups[GROUP.encode()]["lag"] == 0
