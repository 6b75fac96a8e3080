"""Paused queues: nothing is delivered, nothing is lost, and it takes less than a second."""

import threading
import time

import dramatiq
import pytest

from dramatiq_streams import StreamsBroker
from dramatiq_streams.keys import GROUP
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import QueueState, new_message
from tests.integration.ops.conftest import RunCommand
from tests.support.waiting import wait_until

#: Long enough that nobody can mean the timeout when he waits for something else.
LONG_MS = 3_000
#: Less than a second, and another one for a busy machine.
SOON_SECONDS = 2


def blocked_readers(broker: StreamsBroker) -> int:
    """How many connections of the server wait in a blocking read of this broker's lanes."""
    clients = broker.client.client_list()
    return sum(
        client["cmd"].startswith("xreadgroup") and "b" in client["flags"] for client in clients
    )


@pytest.fixture
def done(broker: StreamsBroker) -> list[int]:
    """What the actor `work` has worked on."""
    numbers: list[int] = []
    dramatiq.actor(actor_name="work")(numbers.append)
    return numbers


def send(broker: StreamsBroker, *numbers: int) -> None:
    broker.enqueue_many([new_message(number) for number in numbers])


def test_blocked_consumer_gets_nothing_while_its_queue_is_paused(
    broker: StreamsBroker,
    make_worker: MakeWorker,
    queue: QueueState,
    done: list[int],
    run: RunCommand,
) -> None:
    make_worker(broker, timeout=LONG_MS)
    wait_until(lambda: blocked_readers(broker))

    assert run("queue", "pause", "--queue", "default").code == 0
    send(broker, 1, 2, 3)
    # The consumer has seen the pause when its blocking read has ended.
    wait_until(lambda: not blocked_readers(broker), timeout=SOON_SECONDS)
    wait_until(lambda: run("stats", "--json").json["queues"][0]["ready"] == 3)

    assert done == []
    assert queue.pending() == {}
    run("queue", "resume", "--queue", "default")
    wait_until(lambda: sorted(done) == [1, 2, 3], timeout=SOON_SECONDS)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_consumer_that_starts_in_a_pause_waits_for_its_end(
    broker: StreamsBroker,
    make_worker: MakeWorker,
    *,
    queue: QueueState,
    done: list[int],
    run: RunCommand,
    threads: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    send(broker, 1)
    run("queue", "pause", "--all")

    make_worker(broker, threads=threads)
    wait_until(lambda: run("health").code == 0, message="it looks after its queue")

    assert queue.pending() == {}
    run("queue", "resume", "--all")
    wait_until(lambda: done == [1], timeout=SOON_SECONDS)
    assert "CRITICAL" not in {record.levelname for record in caplog.records}


def test_messages_that_run_go_on_to_their_end(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState, run: RunCommand
) -> None:
    started, proceed = threading.Event(), threading.Event()

    @dramatiq.actor(actor_name="work")
    def work() -> None:
        started.set()
        proceed.wait(20)

    work.send()
    make_worker(broker)
    assert started.wait(5)

    run("queue", "pause", "--all")
    proceed.set()

    wait_until(lambda: queue.count() == 0)
    assert queue.dead() == []
    run("queue", "resume", "--all")


def test_delayed_messages_come_due_in_a_pause_and_wait(
    broker: StreamsBroker,
    make_worker: MakeWorker,
    queue: QueueState,
    done: list[int],
    run: RunCommand,
) -> None:
    make_worker(broker)
    wait_until(lambda: run("queue", "pause", "--all").code == 0)

    broker.enqueue(new_message(1), delay=50)

    wait_until(lambda: len(queue.messages()) == 1)
    assert (done, queue.pending()) == ([], {})
    run("queue", "resume", "--all")
    wait_until(lambda: done == [1])


def test_pauses_under_load_lose_and_double_nothing(
    broker: StreamsBroker, make_worker: MakeWorker, done: list[int], run: RunCommand
) -> None:
    for _ in range(2):
        make_worker(broker, threads=4)
    for start in range(0, 1_000, 100):
        run(
            "queue",
            "pause" if start % 200 == 0 else "resume",
            "--queue",
            "default",
            "--lanes",
            "high,default,low",
        )
        send(broker, *range(start, start + 100))

    run("queue", "resume", "--all")
    broker.join("default", timeout=20_000)

    assert sorted(done) == list(range(1_000))


def test_nothing_at_all_is_read_once_the_consumers_have_noticed(
    broker: StreamsBroker, make_worker: MakeWorker, done: list[int], run: RunCommand
) -> None:
    make_worker(broker, threads=1)
    send(broker, *range(200))
    wait_until(lambda: done)

    run("queue", "pause", "--all")
    wait_until(lambda: run("stats", "--json").json["queues"][0]["pending"] == 0, timeout=5)
    finished = len(done)
    send(broker, *range(200, 250))

    stats = run("stats", "--json").json["queues"][0]
    assert stats["ready"] == 250 - finished
    assert stats["paused_for_ms"] >= 0
    run("queue", "resume", "--all")
    broker.join("default", timeout=10_000)
    assert sorted(done) == list(range(250))


def test_queue_that_is_purged_in_a_pause_stays_paused(
    broker: StreamsBroker,
    make_worker: MakeWorker,
    queue: QueueState,
    done: list[int],
    run: RunCommand,
) -> None:
    make_worker(broker, timeout=LONG_MS)
    wait_until(lambda: blocked_readers(broker))
    run("queue", "pause", "--all")
    send(broker, 1)

    run("queue", "purge", "--all")
    send(broker, 2)

    with pytest.raises(Exception, match="NOGROUP"):
        queue.client.xreadgroup(
            GROUP, "stranger", {queue.keys.wake: ">", queue.lane("default"): ">"}
        )
    assert (done, queue.pending()) == ([], {})
    run("queue", "resume", "--all")
    wait_until(lambda: done == [2])


def test_pause_outlives_the_consumers(
    make_broker: MakeBroker, broker: StreamsBroker, make_worker: MakeWorker, run: RunCommand
) -> None:
    ran: list[str] = []
    dramatiq.actor(actor_name="work")(ran.append)
    broker.enqueue(new_message("message"))
    run("queue", "pause", "--all")

    worker = make_worker(broker)
    time_of_start = time.monotonic()
    worker.stop(timeout=5_000)

    assert time.monotonic() - time_of_start < 5
    assert ran == []
    assert run("stats", "--json").json["queues"][0]["ready"] == 1


def test_pausing_twice_changes_nothing_and_says_so(broker: StreamsBroker, run: RunCommand) -> None:
    send(broker, 1)

    first = run("queue", "pause", "--queue", "default", "--json")
    second = run("queue", "pause", "--queue", "default", "--json")
    third = run("queue", "resume", "--queue", "default")
    fourth = run("queue", "resume", "--queue", "default")

    assert first.json == {"queues": [{"queue": "default", "changed": True}]}
    assert second.json == {"queues": [{"queue": "default", "changed": False}]}
    assert third.out == "Queue default: resumed.\n"
    assert fourth.out == "Queue default: was not paused.\n"
    assert (first.code, second.code, third.code, fourth.code) == (0, 0, 0, 0)


def test_queue_that_was_never_used_is_known_once_it_is_paused(run: RunCommand) -> None:
    paused = run("queue", "pause", "--queue", "new", "--lanes", "high,low")
    [state] = run("stats", "--json").json["queues"]
    resumed = run("queue", "resume", "--queue", "new")

    assert (paused.code, paused.out) == (0, "Queue new: paused.\n")
    assert (state["queue"], [lane["lane"] for lane in state["lanes"]]) == ("new", ["high", "low"])
    assert (resumed.code, resumed.out) == (0, "Queue new: resumed.\n")


def test_pause_with_other_lanes_leaves_those_that_the_broker_has_told(
    broker: StreamsBroker, run: RunCommand
) -> None:
    send(broker, 1)

    run("queue", "pause", "--queue", "default", "--lanes", "other")

    lanes = run("stats", "--json").json["queues"][0]["lanes"]
    assert [lane["lane"] for lane in lanes] == list(broker.options.lanes.names)


@pytest.mark.parametrize("action", ["pause", "resume", "purge"])
def test_queues_to_change_have_to_be_named(
    broker: StreamsBroker, run: RunCommand, action: str
) -> None:
    send(broker, 1)

    none, both = run("queue", action), run("queue", action, "--all", "--queue", "default")

    assert (none.code, both.code) == (2, 2)
    assert "--queue" in none.error
    assert run("stats", "--json").json["queues"][0]["ready"] == 1
