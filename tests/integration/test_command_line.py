"""The `dramatiq` command with several processes and threads on the broker."""

import os
import signal

import psutil
import pytest
import redis

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeBroker, StartCommand
from tests.contract.queue_state import QueueState, new_message
from tests.support.waiting import wait_until

#: Each run of a message is counted by its first argument; the key belongs to the test's namespace.
WORKERS = """
import os, time
import dramatiq, redis
from dramatiq_streams import StreamsBroker

namespace = os.environ["TEST_NAMESPACE"]
broker = StreamsBroker(
    url=os.environ["TEST_URL"], namespace=namespace, lease=int(os.environ.get("LEASE", 60_000))
)
dramatiq.set_broker(broker)
client = redis.Redis.from_url(os.environ["TEST_URL"])
RUNS = "{%s:runs}" % namespace

@dramatiq.actor
def count(number):
    client.hincrby(RUNS, number, 1)

@dramatiq.actor(queue_name="other")
def count_other(number):
    client.hincrby(RUNS, number, 1)

@dramatiq.actor
def hold(number, seconds):
    client.hincrby(RUNS, number, 1)
    client.hset(RUNS + ":by", number, os.getpid())
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not client.exists(RUNS + ":proceed"):
        time.sleep(0.01)
    client.hincrby(RUNS + ":done", number, 1)
"""


class Runs:
    """What the workers have noted."""

    def __init__(self, client: redis.Redis, namespace: str) -> None:
        self.client = client
        self.key = f"{{{namespace}:runs}}"

    def counts(self) -> dict[int, int]:
        """Number -> how often it was started."""
        return {int(number): int(n) for number, n in self.client.hgetall(self.key).items()}

    def pids(self) -> set[int]:
        """The processes that `hold` messages."""
        return {int(pid) for pid in self.client.hvals(f"{self.key}:by")}

    def done(self) -> dict[int, int]:
        """Number -> how often it was finished."""
        return {int(n): int(c) for n, c in self.client.hgetall(f"{self.key}:done").items()}

    def let_go(self) -> None:
        """End what is held."""
        self.client.set(f"{self.key}:proceed", 1)


@pytest.fixture
def runs(redis_client: redis.Redis, namespace: str) -> Runs:
    """What this test's workers have noted."""
    return Runs(redis_client, namespace)


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize("workers", [(1, 8), (2, 4)], ids=["1 process", "2 processes"])
def test_twenty_thousand_messages_run_once_each(
    broker: StreamsBroker,
    cli: StartCommand,
    runs: Runs,
    queue: QueueState,
    workers: tuple[int, int],
) -> None:
    processes, threads = workers
    broker.enqueue_many(new_message(number, actor="count") for number in range(20_000))

    command = cli(WORKERS, processes=processes, threads=threads)
    broker.join("default", timeout=80_000)
    code = command.stop()

    assert code == 0
    counts = runs.counts()
    assert len(counts) == 20_000
    assert set(counts.values()) == {1}
    assert queue.pending() == {}
    assert queue.dead() == []


def test_every_process_takes_part(broker: StreamsBroker, cli: StartCommand, runs: Runs) -> None:
    broker.enqueue_many(new_message(number, 20, actor="hold") for number in range(12))

    command = cli(WORKERS, processes=3, threads=1)
    wait_until(lambda: len(runs.pids()) == 3)

    assert runs.pids() == set(command.worker_pids)
    runs.let_go()
    broker.join("default", timeout=10_000)
    assert runs.counts() == dict.fromkeys(range(12), 1)


def test_only_named_queues_are_consumed(
    broker: StreamsBroker, cli: StartCommand, runs: Runs, queue: QueueState
) -> None:
    broker.enqueue(new_message(1, actor="count"))
    broker.enqueue(new_message(2, actor="count_other", queue="other"))
    broker.enqueue(new_message(3, actor="count_other", queue="other"), delay=50)

    cli(WORKERS, arguments=("--queues", "other"))
    broker.join("other", timeout=10_000)

    assert runs.counts() == {2: 1, 3: 1}
    assert len(queue.messages()) == 1


@pytest.mark.slow
def test_restart_by_sighup_loses_and_doubles_nothing(
    broker: StreamsBroker, cli: StartCommand, runs: Runs
) -> None:
    command = cli(WORKERS, processes=2, threads=2)
    before = command.worker_pids
    broker.enqueue_many(new_message(number, actor="count") for number in range(3_000))
    wait_until(lambda: len(runs.counts()) > 100)

    os.kill(command.pid, signal.SIGHUP)
    wait_until(
        lambda: command.worker_pids and set(command.worker_pids).isdisjoint(before), timeout=30
    )
    broker.join("default", timeout=30_000)

    assert runs.counts() == dict.fromkeys(range(3_000), 1)


@pytest.mark.slow
def test_terminated_workers_finish_and_give_back_what_they_did_not_start(
    broker: StreamsBroker,
    cli: StartCommand,
    runs: Runs,
    queue: QueueState,
) -> None:
    broker.enqueue_many(new_message(number, 4, actor="hold") for number in range(20))
    prefetch = {"dramatiq_queue_prefetch": "5"}
    command = cli(WORKERS, processes=1, threads=2, environment=prefetch)
    wait_until(lambda: len(runs.counts()) == 2)
    wait_until(lambda: len(queue.held()) == 5, message="three more are prefetched")

    os.kill(command.pid, signal.SIGTERM)
    # Not `stop`: a second signal would end it by force.
    wait_until(lambda: command.returncode is not None, message="dramatiq has ended")

    assert command.returncode == 0
    assert sorted(runs.counts()) == [0, 1]
    assert runs.done() == {0: 1, 1: 1}
    assert queue.held() == {}
    assert [message.args[0] for message in queue.messages()] == list(range(2, 20))
    consumer = broker.consume("default", prefetch=18, timeout=2_000)
    first = [next(consumer) for _ in range(2)]
    assert [message.args[0] for message in first if message] == [2, 3]
    assert {delivery.deliveries for delivery in queue.held().values()} == {1}
    consumer.close()


@pytest.mark.slow
def test_long_message_runs_once_while_other_processes_idle_beside_it(
    make_broker: MakeBroker, cli: StartCommand, runs: Runs
) -> None:
    broker = make_broker(lease=1_000)
    cli(WORKERS, processes=3, threads=1, environment={"LEASE": "1000"})

    broker.enqueue(new_message(1, 3.2, actor="hold"))
    broker.join("default", timeout=15_000)

    assert runs.counts() == {1: 1}
    assert runs.done() == {1: 1}


@pytest.mark.slow
def test_prefetched_messages_behind_a_long_one_stay_with_their_worker(
    make_broker: MakeBroker, cli: StartCommand, runs: Runs, queue: QueueState
) -> None:
    broker = make_broker(lease=1_000)
    broker.enqueue_many(new_message(number, 2.5, actor="hold") for number in range(2))
    cli(WORKERS, processes=1, threads=1, environment={"LEASE": "1000"})

    broker.join("default", timeout=15_000)

    assert runs.counts() == {0: 1, 1: 1}
    assert queue.dead() == []


def test_idle_workers_cost_the_server_next_to_nothing(
    broker: StreamsBroker, cli: StartCommand, start_server
) -> None:
    own = start_server()
    command = cli(WORKERS, url=own.url, processes=1, threads=2)
    client = own.client()
    wait_until(lambda: any("b" in found["flags"] for found in client.client_list()))
    worker = psutil.Process(command.worker_pids[0])

    before, cpu = client.info("stats")["total_commands_processed"], sum(worker.cpu_times()[:2])
    with pytest.raises(AssertionError, match="never"):
        wait_until(lambda: False, timeout=2.0, message="never")
    commands = client.info("stats")["total_commands_processed"] - before

    # Two queues: a blocked read each second, its wake-up, and the looks for expired leases.
    assert commands < 120
    assert sum(worker.cpu_times()[:2]) - cpu < 0.5
