"""SIGKILL between two steps of a message's life, at the very instruction."""

import os
import signal

import pytest
import redis

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeWorker
from tests.faults.actors import Actors
from tests.faults.conftest import StartVictims
from tests.faults.journal import Journal
from tests.faults.state import dead_reasons, pending, stored, wait_until_blocked
from tests.support.cli import DramatiqCommand
from tests.support.waiting import wait_until


def _wait_for_death(command: DramatiqCommand, journal: Journal) -> None:
    wait_until(lambda: journal.pids("victim", "died"), timeout=15, message="the victim died")
    wait_until(lambda: command.returncode is not None, timeout=15, message="dramatiq ended")


@pytest.mark.parametrize(
    ("die_at", "delay", "runs"),
    [
        pytest.param("after read", 50, 1, id="read and not yet heard of"),
        pytest.param("after XREADGROUP", None, 1, id="arrived and not yet heard of"),
        pytest.param("before_process_message", None, 1, id="about to start"),
        pytest.param("after_process_message", None, 2, id="between the body and the ack"),
        pytest.param("before ack", None, 2, id="about to send the ack"),
        pytest.param("after ack", None, 1, id="acknowledged and not yet told"),
    ],
)
def test_message_survives_a_death_on_its_way(
    die_at: str,
    delay: int | None,
    runs: int,
    actors: Actors,
    broker: StreamsBroker,
    journal: Journal,
    victims: StartVictims,
    make_worker: MakeWorker,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    command = victims(die_at=die_at, threads=1)
    wait_until_blocked(redis_client)
    journal.allow("die")

    actors.note.send_with_options(args=("message",), delay=delay)
    _wait_for_death(command, journal)
    make_worker(broker)

    broker.join("default", timeout=5_000)
    assert journal.counts()["message"] == runs
    assert pending(redis_client, namespace) == []
    assert dead_reasons(redis_client, namespace) == []


@pytest.mark.parametrize("die_at", ["before hand_over", "after hand_over"])
def test_retry_exists_once_when_its_worker_dies_around_the_hand_over(
    die_at: str,
    actors: Actors,
    broker: StreamsBroker,
    journal: Journal,
    victims: StartVictims,
    make_worker: MakeWorker,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    command = victims(die_at=die_at, threads=1)
    journal.allow("die")

    actors.fail_once.send("message")
    _wait_for_death(command, journal)
    copies = stored(redis_client, namespace)
    make_worker(broker)

    broker.join("default", timeout=5_000)
    assert copies == 1
    assert journal.counts()["message"] == 2
    assert dead_reasons(redis_client, namespace) == []


@pytest.mark.parametrize(("die_at", "runs"), [("before reject", 2), ("after reject", 1)])
def test_one_dead_letter_remains_when_a_worker_dies_around_the_rejection(
    die_at: str,
    runs: int,
    actors: Actors,
    broker: StreamsBroker,
    journal: Journal,
    victims: StartVictims,
    make_worker: MakeWorker,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    command = victims(die_at=die_at, threads=1)
    journal.allow("die")

    actors.fail.send("message")
    _wait_for_death(command, journal)
    make_worker(broker)

    broker.join("default", timeout=5_000)
    assert journal.counts()["message"] == runs
    assert dead_reasons(redis_client, namespace) == ["failed"]


@pytest.mark.parametrize("die_at", ["before release", "after release"])
def test_prefetched_message_survives_a_death_in_requeue(
    die_at: str,
    actors: Actors,
    broker: StreamsBroker,
    journal: Journal,
    victims: StartVictims,
    make_worker: MakeWorker,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    command = victims(die_at=die_at, threads=1, prefetch=3)
    actors.hold.send("running")
    broker.enqueue_many([actors.note.message("prefetched1"), actors.note.message("prefetched2")])
    wait_until(lambda: len(pending(redis_client, namespace)) == 3, message="all are prefetched")
    journal.allow("die")

    os.kill(command.pid, signal.SIGTERM)
    command.wait_for_log("Shutting down...")
    journal.allow("go")
    _wait_for_death(command, journal)
    make_worker(broker)

    broker.join("default", timeout=5_000)
    runs = journal.counts()
    assert runs.pop("running") in {1, 2}  # its ack may have been on its way
    assert runs == {"prefetched1": 1, "prefetched2": 1}


@pytest.mark.parametrize(
    ("max_deliveries", "runs", "dead"), [(5, 1, []), (1, 0, ["max_deliveries"])]
)
def test_message_survives_the_death_of_the_one_who_recovers_it(
    max_deliveries: int,
    runs: int,
    dead: list[str],
    actors: Actors,
    broker: StreamsBroker,
    journal: Journal,
    victims: StartVictims,
    make_worker: MakeWorker,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    limit = {"max_deliveries": max_deliveries}
    first = victims(threads=1, broker_options=limit)
    actors.hold.send("message")
    wait_until(lambda: journal.pids("message", "started"), message="it runs")
    second = victims(die_at="after recover", threads=1, broker_options=limit)
    journal.allow("die")

    first.kill_worker()
    _wait_for_death(second, journal)
    journal.allow("go")
    make_worker(broker)

    broker.join("default", timeout=5_000)
    assert journal.counts()["message"] == runs
    assert dead_reasons(redis_client, namespace) == dead
