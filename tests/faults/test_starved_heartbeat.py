"""An actor that keeps the interpreter's lock in one C call: no thread of its process can go on.

Neither heartbeats are sent nor leases extended meanwhile. The connections stay open, for the kernel
keeps them; so only the lease is the limit.
"""

import os

import pytest

from dramatiq_streams.options import DEFAULT_LEASE_MS
from tests.faults.conftest import Stage
from tests.support.servers import Server


@pytest.mark.parametrize("host", [None, "elsewhere"])
def test_actor_that_starves_its_process_for_longer_than_the_grace_keeps_its_message(
    stage: Stage, server: Server, host: str | None
) -> None:
    scene = stage(server, lease=DEFAULT_LEASE_MS, disconnect_grace=1_000)
    command = scene.start_victim(host=host)
    scene.actors.starve.send("message", 4)
    scene.wait_until_started("message")
    scene.start_survivor()
    (holder,) = scene.holders()
    scene.start_survivor()

    scene.wait_until_late(holder, 2_500)
    scene.wait_for_heartbeats()
    deliveries = scene.deliveries()
    scene.join(seconds=10)

    assert deliveries == [1]
    assert scene.journal.pids("message", "started") == command.worker_pids


@pytest.mark.slow
@pytest.mark.parametrize("host", ["elsewhere"])
def test_actor_that_starves_its_process_for_twenty_seconds_keeps_its_message_by_default(
    stage: Stage, server: Server, host: str
) -> None:
    scene = stage(server, lease=DEFAULT_LEASE_MS)
    command = scene.start_victim(host=host)
    scene.actors.starve.send("message", 20)
    scene.wait_until_started("message")

    scene.start_survivor()

    scene.join(seconds=30)
    assert scene.journal.pids("message", "started") == command.worker_pids
    assert scene.journal.pids("message") == command.worker_pids


def test_actor_that_starves_its_process_for_longer_than_a_lease_loses_its_message(
    stage: Stage, server: Server
) -> None:
    scene = stage(server, lease=1_000)
    command = scene.start_victim()
    (pid,) = command.worker_pids
    scene.actors.starve.send("message", 3)
    scene.wait_until_started("message")

    scene.start_survivor()
    scene.join(seconds=10)
    command.wait_for_log("after its lease was lost")

    assert scene.journal.pids("message", "started") == [pid, os.getpid()]
    assert scene.dead_reasons() == []
