"""SIGTERM of a worker with the options that users have, while its server hangs."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dramatiq
import pytest

from dramatiq_streams import StreamsBroker
from dramatiq_streams.keys import queue_keys
from dramatiq_streams.lanes import DEFAULT_LANES
from dramatiq_streams.urls import DEFAULT_SOCKET_TIMEOUT
from tests.conftest import MakeBroker, MakeWorker, StartCommand
from tests.faults.journal import Journal
from tests.support.cli import DramatiqCommand
from tests.support.servers import Server
from tests.support.waiting import wait_until

#: The tasks end at once, so all of it is waiting for the server: five seconds, or the socket
#: timeout of ten where a command was under way already. The rest is signals and processes.
STOP_SECONDS = DEFAULT_SOCKET_TIMEOUT + 4

_SOURCE = f"""
import os, sys
from pathlib import Path
import dramatiq
from dramatiq_streams import StreamsBroker
sys.path.append({str(Path(__file__).parents[2])!r})
from tests.faults.journal import Journal
from tests.faults.test_hung_stops import declare

broker = StreamsBroker(url=os.environ["TEST_URL"], namespace=os.environ["TEST_NAMESPACE"])
dramatiq.set_broker(broker)
declare(broker, Journal(Path(os.environ["TEST_DIRECTORY"])))
"""


def declare(broker: StreamsBroker, journal: Journal) -> dict[str, dramatiq.Actor[Any, Any]]:
    """Three actors on two queues, which end when the test allows `go`, each in another way."""

    def hold(label: str) -> None:
        journal.note(label, "started")
        wait_until(lambda: journal.is_allowed("go"), timeout=60, message="allowed to go on")
        journal.note(label)

    def hold_and_fail(label: str) -> None:
        hold(label)
        raise RuntimeError(f"{label} fails")

    def hold_and_retry(label: str) -> None:
        hold(label)
        if len(journal.pids(label)) == 1:
            raise RuntimeError(f"{label} fails once")

    def actor(deed: Callable[[str], None], **options: Any) -> dramatiq.Actor[Any, Any]:
        return dramatiq.actor(broker=broker, **options)(deed)

    return {
        "slow": actor(hold, queue_name="one"),
        "failing": actor(hold_and_fail, queue_name="two", max_retries=0),
        "retried": actor(hold_and_retry, queue_name="two", min_backoff=10),
    }


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


@pytest.fixture
def hung_broker(make_broker: MakeBroker, own_server: Server) -> StreamsBroker:
    return make_broker(url=own_server.tcp_url)


@pytest.fixture
def busy(
    hung_broker: StreamsBroker, own_server: Server, journal: Journal, cli: StartCommand
) -> DramatiqCommand:
    """A worker that runs one message of each actor, and has fetched two more of each queue."""
    actors = declare(hung_broker, journal)
    for label, actor in actors.items():
        actor.send(label)
    command = cli(
        _SOURCE,
        url=own_server.tcp_url,
        threads=3,
        environment={"TEST_DIRECTORY": str(journal.directory), "dramatiq_queue_prefetch": "8"},
    )
    wait_until(lambda: set(journal.counts("started")) == set(actors), message="all are running")
    for number in range(2):
        actors["slow"].send(f"slow{number}")
        actors["failing"].send(f"failing{number}")
    return command


def _take_over(
    broker: StreamsBroker, journal: Journal, make_worker: MakeWorker
) -> dict[str, set[str]]:
    """Run what is left in this process; returns the labels that ran, and the dead letters'."""
    make_worker(broker)
    for name in ("one", "two"):
        broker.join(name, timeout=30_000)
    dead = broker.client.xrange(queue_keys(broker.namespace, "two", tuple(DEFAULT_LANES)).dead)
    bodies = [json.loads(fields[b"m"]) for _, fields in dead]
    return {"ran": set(journal.counts()), "dead": {body["args"][0] for body in bodies}}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("hung_for", [0, pytest.param(13, marks=pytest.mark.slow)])
def test_worker_of_two_queues_waits_once_for_a_server_that_hangs(
    hung_broker: StreamsBroker,
    own_server: Server,
    busy: DramatiqCommand,
    journal: Journal,
    make_worker: MakeWorker,
    *,
    hung_for: int,
) -> None:
    own_server.pause()
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() >= begun + hung_for, timeout=hung_for + 1)

    stopped = time.monotonic()
    os.kill(busy.pid, signal.SIGTERM)
    journal.allow("go")
    code = busy.wait_until_ended(timeout=60)
    took = time.monotonic() - stopped
    own_server.resume()

    assert code == 0
    assert took < STOP_SECONDS
    labels = {"slow", "failing", "retried", *(f"{s}{n}" for s in ("slow", "failing") for n in "01")}
    left = _take_over(hung_broker, journal, make_worker)
    assert left == {"ran": labels, "dead": {"failing", "failing0", "failing1"}}
