"""What a worker says and does while its server is away, slow, or busy with coming back."""

import re
import time
from collections.abc import Callable

import pytest
from dramatiq.errors import BrokerConnectionError

from tests.conftest import StartServer
from tests.faults.conftest import Stage
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

#: Long enough for dramatiq to begin its consumers anew, and for several rounds of every duty.
OUTAGE_SECONDS = 4.0

#: So long a server loads so many thousands of keys.
LOADING_SECONDS = 4.0
SLOW_TO_LOAD = ["key-load-delay 1000", "loading-process-events-interval-bytes 1024"]

#: What fails during an outage, and has to be retried after it.
RETRIED = [f"retried{number}" for number in range(4)]

BEGINS = "all is tried until it succeeds"
ENDS = "again, as all else, after"

Fault = Callable[[Server], None]

OUTAGES: dict[str, tuple[Fault, Fault]] = {
    "stopped": (Server.stop, Server.start),
    "killed": (Server.kill, Server.start),
    "hung": (Server.pause, Server.resume),
    "read-only": (
        lambda server: _tell(server, "REPLICAOF", "127.0.0.1", "1"),
        lambda server: _tell(server, "REPLICAOF", "NO", "ONE"),
    ),
}


def _tell(server: Server, *command: str) -> None:
    server.client().execute_command(*command)


def troubles(log: str) -> list[str]:
    """What a worker process has logged as a warning or worse, but for what its actors raised."""
    found = re.findall(r"^.*\[(?:WARNING|ERROR|CRITICAL)\].*$", log, re.MULTILINE)
    return [line for line in found if not re.search("hold_and_fail|Retries exceeded", line)]


@pytest.mark.slow
@pytest.mark.parametrize("outage", OUTAGES)
def test_outage_is_one_line_in_the_log_and_its_end_is_another(
    stage: Stage, own_server: Server, outage: str
) -> None:
    begin, end = OUTAGES[outage]
    scene = stage(own_server, lease=20_000, socket_timeout=1)
    victim = scene.start_victim(threads=3 + len(RETRIED))
    for actor in (scene.actors.hold, scene.actors.hold_and_fail):
        actor.send(actor.actor_name)
        scene.wait_until_started(actor.actor_name)
    for label in RETRIED:
        scene.actors.hold_and_fail_once.send(label)
        scene.wait_until_started(label)
    victim.wait_until_booted()
    before = troubles(victim.log)

    begin(own_server)
    scene.journal.allow("go")
    begun = time.monotonic()
    victim.wait_for_log(BEGINS)
    wait_until(lambda: time.monotonic() - begun > OUTAGE_SECONDS, timeout=OUTAGE_SECONDS + 1)
    end(own_server)
    scene.actors.note.send("after")

    scene.join(seconds=10)
    victim.wait_for_log(ENDS)
    assert victim.stop() == 0
    news = [line for line in troubles(victim.log) if line not in before]
    assert len(news) == 1
    assert BEGINS in news[0]
    assert victim.log.count(ENDS) == 1
    once = dict.fromkeys(("hold", "hold_and_fail", "after"), 1)
    assert scene.journal.counts() == {**once, **dict.fromkeys(RETRIED, 2)}
    assert scene.dead_reasons() == ["failed"]


def test_worker_that_starts_before_its_server_says_so_once_and_begins_with_it(
    stage: Stage, own_server: Server
) -> None:
    scene = stage(own_server)
    own_server.stop()

    victim = scene.start_victim()
    victim.wait_for_log(BEGINS)
    own_server.start()
    scene.actors.note.send("first")

    scene.join(seconds=10)
    victim.wait_for_log(ENDS)
    assert victim.stop() == 0
    assert len(troubles(victim.log)) == 1
    assert victim.log.count(ENDS) == 1


def test_killed_connection_is_no_outage(stage: Stage, own_server: Server) -> None:
    scene = stage(own_server, lease=20_000)
    victim = scene.start_victim()
    victim.wait_until_booted()
    scene.wait_until_blocked()
    before = troubles(victim.log)

    for number in range(3):
        own_server.client().client_kill_filter(_type="normal", skipme=True)
        scene.actors.note.send(f"after{number}")
        scene.join(seconds=10)

    assert [line for line in troubles(victim.log) if line not in before] == []
    assert scene.journal.counts() == {"after0": 1, "after1": 1, "after2": 1}


def test_what_was_fetched_before_an_outage_runs_during_it(stage: Stage, own_server: Server) -> None:
    scene = stage(own_server, lease=20_000)
    scene.start_victim(prefetch=10)
    scene.actors.hold.send("first")
    prefetched = scene.send_notes(5)
    scene.wait_until_pending(6)

    own_server.stop()
    scene.journal.allow("go")
    wait_until(lambda: prefetched <= set(scene.journal.counts()), message="the fetched ones ran")
    own_server.start()

    scene.join(seconds=10)
    assert scene.journal.counts() == dict.fromkeys({"first", *prefetched}, 1)


@pytest.mark.slow
def test_loading_server_is_waited_for(stage: Stage, start_server: StartServer) -> None:
    own_server = start_server(config=SLOW_TO_LOAD, appendonly=True)
    client = own_server.client()
    with client.pipeline(transaction=False) as pipeline:
        for number in range(int(LOADING_SECONDS * 1000)):
            pipeline.set(f"filler:{number}", "")
        pipeline.bgrewriteaof()  # While it loads a snapshot it answers.
        pipeline.execute()
    wait_until(
        lambda: not client.info("persistence")["aof_rewrite_in_progress"], message="rewritten"
    )
    scene = stage(own_server, lease=20_000, enqueue_timeout=0)
    victim = scene.start_victim(prefetch=5)
    scene.actors.hold.send("running")
    prefetched = scene.send_notes(3)
    scene.wait_until_pending(4)

    own_server.kill()
    own_server.start(wait_until_loaded=False)
    scene.journal.allow("go")
    with pytest.raises(BrokerConnectionError, match=r"[Ll]oading"):
        scene.actors.note.send("while it loads")
    victim.wait_for_log(BEGINS)
    wait_until(
        lambda: not own_server.client().info("persistence")["loading"],
        timeout=20,
        message="it has loaded",
    )
    scene.actors.note.send("after")

    scene.join(seconds=10)
    victim.wait_for_log(ENDS)
    assert scene.journal.counts() == dict.fromkeys({"running", "after", *prefetched}, 1)
    assert victim.log.count(ENDS) == 1


@pytest.mark.slow
def test_slow_network_makes_work_slow_and_loses_nothing(
    stage: Stage, server: Server, proxy: FaultyProxy
) -> None:
    scene = stage(server, url=proxy.url, lease=15_000)
    scene.start_victim(threads=4)
    scene.start_survivor()
    scene.wait_for_heartbeats(1)
    padding = "x" * 500

    proxy.throttle(bytes_per_second=8_000)
    labels = {f"{number}{padding}" for number in range(60)}
    scene.broker.enqueue_many([scene.actors.note.message(label) for label in labels])

    scene.join(seconds=30)
    assert scene.journal.counts() == dict.fromkeys(labels, 1)
    assert scene.pending() == []
