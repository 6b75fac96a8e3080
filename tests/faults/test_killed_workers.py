"""SIGKILL to worker processes: what they held is run by others, and a killer is stopped."""

import os

import pytest
import redis

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeWorker
from tests.faults.actors import Actors
from tests.faults.conftest import LEASE_MS, StartVictims
from tests.faults.journal import Journal
from tests.faults.state import dead_reasons, deliveries, pending, stored
from tests.support.cli import DramatiqCommand
from tests.support.waiting import wait_until

#: A lease to expire, and what it takes to notice.
NOTICED_SECONDS = LEASE_MS / 1000 + 2


def test_message_of_a_killed_worker_is_run_by_another(
    actors: Actors,
    broker: StreamsBroker,
    journal: Journal,
    victims: StartVictims,
    make_worker: MakeWorker,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    command = victims(threads=1)
    actors.hold.send("running")
    wait_until(lambda: journal.pids("running", "started"), message="it runs")
    make_worker(broker)

    victim = command.kill_worker()

    wait_until(
        lambda: journal.pids("running", "started") == [victim, os.getpid()],
        timeout=NOTICED_SECONDS,
        message="another process runs it",
    )
    assert deliveries(redis_client, namespace) == [2]
    journal.allow("go")
    broker.join("default", timeout=5_000)
    assert journal.pids("running") == [os.getpid()]


def test_prefetched_messages_of_a_killed_worker_are_run_by_another(
    actors: Actors,
    broker: StreamsBroker,
    journal: Journal,
    victims: StartVictims,
    make_worker: MakeWorker,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    command = victims(threads=1, prefetch=8)
    actors.hold.send("running")
    broker.enqueue_many([actors.note.message(f"prefetched{number}") for number in range(7)])
    wait_until(lambda: len(pending(redis_client, namespace)) == 8, message="all are prefetched")

    victim = command.kill_worker()
    journal.allow("go")
    make_worker(broker)

    broker.join("default", timeout=int(NOTICED_SECONDS * 1000))
    assert victim not in {note.pid for note in journal.notes() if note.event == "ran"}
    assert journal.counts() == {"running": 1, **{f"prefetched{number}": 1 for number in range(7)}}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_nothing_is_lost_when_processes_are_killed_under_load(
    actors: Actors,
    broker: StreamsBroker,
    journal: Journal,
    victims: StartVictims,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    count, kills = 20_000, 4
    broker.enqueue_many([actors.note.message(str(number)) for number in range(count)])
    in_flight = 0

    for kill in range(1, kills + 1):
        command = _supervised(victims)
        goal = kill * count // (kills + 1)
        wait_until(lambda: len(journal.counts()) >= goal, timeout=60, interval=0.1)  # noqa: B023
        command.kill_worker()
        command.kill()
        in_flight += len(pending(redis_client, namespace))
    _supervised(victims)

    broker.join("default", timeout=60_000, interval=100)
    runs = journal.counts()
    assert len(runs) == count
    assert sum(runs.values()) - count <= in_flight
    assert pending(redis_client, namespace) == []
    assert dead_reasons(redis_client, namespace) == []


def _supervised(victims: StartVictims) -> DramatiqCommand:
    """What a supervisor starts anew each time: dramatiq ends when one of its workers dies."""
    return victims(processes=2, threads=4)


def test_message_that_kills_its_worker_is_dead_lettered(
    actors: Actors,
    broker: StreamsBroker,
    journal: Journal,
    victims: StartVictims,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    limit = {"max_deliveries": 2}
    actors.poison.send("poison")

    for death in (1, 2):
        command = victims(broker_options=limit, threads=1)
        wait_until(lambda: len(journal.pids("poison")) == death, timeout=20)  # noqa: B023
        wait_until(lambda: command.returncode is not None, timeout=20)  # noqa: B023
    actors.note.send("healthy")
    victims(broker_options=limit, threads=1)

    broker.join("default", timeout=10_000)
    assert dead_reasons(redis_client, namespace) == ["max_deliveries"]
    assert journal.counts() == {"poison": 2, "healthy": 1}
    assert stored(redis_client, namespace) == 0
