import os

import psutil
import pytest
import redis
from dramatiq.cli import RET_KILLED

from tests.conftest import StartCommand
from tests.support.waiting import wait_until

QUIET = """
import dramatiq
from dramatiq.brokers.stub import StubBroker

dramatiq.set_broker(StubBroker())
"""


def test_command_boots_as_many_workers_as_asked_for_and_stops_in_order(cli: StartCommand) -> None:
    command = cli(QUIET, processes=2)
    pids = command.worker_pids

    code = command.stop()

    assert code == 0
    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_module_finds_server_and_namespace_in_its_environment(
    cli: StartCommand, redis_client: redis.Redis, namespace: str
) -> None:
    source = """
import os
import redis

with redis.Redis.from_url(os.environ["TEST_URL"]) as client:
    client.set("{%s:cli:0}" % os.environ["TEST_NAMESPACE"], os.environ["COLOUR"])
"""

    cli(QUIET + source, environment={"COLOUR": "green"})

    assert redis_client.get(f"{{{namespace}:cli:0}}") == b"green"


def test_command_that_cannot_boot_fails_with_its_log(cli: StartCommand) -> None:
    with pytest.raises(AssertionError, match="no module of this name"):
        cli("raise ImportError('no module of this name')")


def test_killed_command_leaves_no_workers(cli: StartCommand) -> None:
    command = cli(QUIET, processes=2)
    pids = command.worker_pids

    os.kill(command.pid, 9)

    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), message="workers are gone")


def test_killed_worker_is_seen_by_its_command(cli: StartCommand) -> None:
    command = cli(QUIET, processes=2)

    command.kill_worker()

    assert command.wait_until_ended() == RET_KILLED


def test_command_whose_worker_dies_as_it_boots_ends_soon(cli: StartCommand) -> None:
    command = cli("import os\nos.kill(os.getpid(), 9)", wait=False)

    assert command.wait_until_ended() == RET_KILLED
