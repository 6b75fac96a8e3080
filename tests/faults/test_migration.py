"""SIGKILL of a migration at every moment: nothing is lost, and nothing is there twice."""

import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import dramatiq
import pytest
from dramatiq.message import Message

from dramatiq_streams.cli import main
from tests.conftest import MakeBroker, MakeWorker, StartServer
from tests.contract.queue_state import QueueState
from tests.faults.migrant import Migrants
from tests.support.redis_broker import OldBroker
from tests.support.servers import Server
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000
MOST_MOMENTS = 400
MOST_SENT = 5_000

#: More than a page of what waits, and one of everything else.
WAITING, DELAYED, DEAD = range(7), range(7, 9), range(9, 11)


@pytest.fixture(scope="module")
def migrants() -> Iterator[Migrants]:
    """Starts migrations that die."""
    with Migrants() as started:
        yield started


@dataclass(frozen=True, slots=True)
class Crossing:
    """From an old broker to a queue of ours."""

    old: OldBroker
    queue: QueueState
    #: The command line.
    command: list[str]
    is_on_one_server: bool


@pytest.fixture(params=["one server", "two servers"])
def crossing(
    request: pytest.FixtureRequest, server: Server, start_server: StartServer, namespace: str
) -> Iterator[Crossing]:
    """An old broker with nothing in it, and where it goes: on the same server, or on another."""
    is_one = request.param == "one server"
    old = OldBroker(server if is_one else start_server(), f"old-{secrets.token_hex(6)}")
    source = ["--from", old.url, "--from-namespace", old.namespace]
    command = ["migrate", *source, "--url", server.url, "--namespace", namespace]
    with server.client() as client:
        yield Crossing(old, QueueState(client, namespace), command, is_one)
    old.clean()


def fill(old: OldBroker) -> None:
    """Messages in each state, two of them with a worker that has died."""
    for number in DEAD:
        old.send(number, traceback="Error: it failed")
    held = old.fetch(len(DEAD))
    for message in held.messages:
        held.consumer.nack(message)
    for number in WAITING:
        old.send(number)
    for number in DELAYED:
        old.send(number, delay=HOUR_MS + number)
    old.fetch(2).fall_silent()


def flush(queue: QueueState) -> None:
    """Delete all keys of the queue."""
    client = queue.client
    client.delete(*client.scan_iter(match=f"{queue.keys.tag}:*", count=1000))


def assert_all_have_come_once(crossing: Crossing) -> None:
    """Each message is where it should be, once, in its order; the source is empty."""
    queue = crossing.queue
    arrived = [message.args[0] for message in queue.messages()]
    # A worker's messages have no order among themselves.
    assert (set(arrived[:2]), arrived[2:]) == ({0, 1}, list(WAITING)[2:])
    assert [message.args[0] for _, message in queue.delayed()] == list(DELAYED)
    # Nor have those that died in the same millisecond.
    dead = [Message.decode(letter["m"]).args[0] for letter in queue.dead()]
    assert sorted(dead) == list(DEAD)
    assert crossing.old.keys() == set()


@pytest.mark.slow
def test_migration_that_is_killed_at_any_moment_is_finished_by_the_next(
    crossing: Crossing, migrants: Migrants
) -> None:
    is_killed, killed = True, 0
    # On one server the moments are the same: a third of them shows that it makes no difference.
    for moment in range(1, MOST_MOMENTS, 3 if crossing.is_on_one_server else 1):
        fill(crossing.old)

        is_killed = migrants.run(moment, crossing.command)
        code = main(crossing.command)

        assert code == 0
        assert_all_have_come_once(crossing)
        flush(crossing.queue)
        if not is_killed:
            break
        killed += 1

    assert killed > (10 if crossing.is_on_one_server else 30)
    assert not is_killed


def test_migrations_that_are_killed_one_after_the_other_come_to_an_end(
    crossing: Crossing, migrants: Migrants
) -> None:
    fill(crossing.old)
    moments = random.Random(7)

    killed = 0
    while migrants.run(moments.randrange(5, 25), crossing.command):
        killed += 1
        assert killed < MOST_MOMENTS

    assert killed > 2
    assert_all_have_come_once(crossing)


def test_two_migrations_at_once_that_are_both_killed_move_everything_once(
    crossing: Crossing, migrants: Migrants
) -> None:
    fill(crossing.old)
    moments = random.Random(11)

    for _ in range(6):
        pair = [moments.randrange(1, 30) for _ in range(2)]
        for pid in [migrants.start(moment, crossing.command) for moment in pair]:
            migrants.wait(pid)
    code = main(crossing.command)

    assert code == 0
    assert_all_have_come_once(crossing)


@pytest.mark.slow
def test_every_message_runs_once_while_everybody_works_and_migrations_are_killed(
    crossing: Crossing, migrants: Migrants, make_broker: MakeBroker, make_worker: MakeWorker
) -> None:
    runs: list[tuple[str, int]] = []
    broker, moments = make_broker(), random.Random(13)
    sender = Sender(_declare(crossing.old.broker, runs, "there"))
    _declare(broker, runs, "here")
    old_worker = make_worker(crossing.old.broker, threads=1, timeout=5)
    new_worker = make_worker(broker)

    sender.start()
    wait_until(lambda: sender.sent, message="there is something to migrate")
    killed = 0
    while killed < 6 and sender.is_alive():
        pair = [moments.randrange(5, 50) for _ in range(2)]
        for pid in [migrants.start(moment, crossing.command) for moment in pair]:
            killed += migrants.wait(pid, may_leave=True)
    sender.stop()
    old_worker.stop()
    # dramatiq's worker does not give back what it had fetched and not looked at yet.
    code = main([*crossing.command, "--include-unacked"])
    broker.join("default", timeout=30_000)
    new_worker.stop()

    assert killed >= 3
    assert code == 0
    assert Counter(number for _, number in runs) == dict.fromkeys(range(sender.sent), 1)
    assert {place for place, _ in runs} == {"there", "here"}
    assert crossing.old.keys() == set()


class Sender(threading.Thread):
    """Sends calls of *actor*, each fifth with a delay, until it is told to stop."""

    def __init__(self, actor: dramatiq.Actor[[int], None]) -> None:
        super().__init__(daemon=True)
        self.sent = 0
        self._actor = actor
        self._stopping = threading.Event()

    def run(self) -> None:
        while self.sent < MOST_SENT and not self._stopping.is_set():
            delay = None if self.sent % 5 else 200
            self._actor.send_with_options(args=(self.sent,), delay=delay)
            self.sent += 1

    def stop(self) -> None:
        self._stopping.set()
        self.join(10)


def _declare(
    broker: dramatiq.Broker, runs: list[tuple[str, int]], place: str
) -> dramatiq.Actor[[int], None]:
    @dramatiq.actor(broker=broker, actor_name="work")
    def work(number: int) -> None:
        time.sleep(0.001)
        runs.append((place, number))

    return work
