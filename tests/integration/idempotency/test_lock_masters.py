"""The masters of locks: their threads, connections, scripts and options."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import redis
from pottery import Redlock as ShippedRedlock

from dramatiq_streams import InvalidOption, LocksUnavailable
from dramatiq_streams.events import Event
from dramatiq_streams.middleware.idempotency.masters import Masters
from tests.conftest import MakeWorker
from tests.integration.idempotency.conftest import MakeIdempotent, Runs, declare, join
from tests.support.locking import KEY, LockServers, is_free, known, lock
from tests.support.waiting import wait_until


@pytest.mark.parametrize("size", [1, 3])
def test_interrupts_leave_neither_keys_nor_threads_nor_wrong_replies(
    lockers: LockServers, size: int
) -> None:
    program = Path(__file__).with_name("interrupted_locks.py")
    urls = [server.url for server in lockers.servers[:size]]

    ended = subprocess.run(
        [sys.executable, program, *urls], capture_output=True, text=True, timeout=45
    )
    report = json.loads(ended.stdout or "{}")

    assert ended.returncode == 0, ended.stderr
    assert report["interrupts"] >= 50
    assert report["taken"] >= 50
    assert report["errors"] == []
    assert not report["is_alive"]
    assert report["threads"] == (size if size > 1 else 0)
    assert report["last"]
    lockers.wait_until_empty(timeout=3)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_process_connects_by_itself(lockers: LockServers) -> None:
    masters = lockers.masters(size=3)
    mine = lock(masters)
    assert known(mine.acquire)

    child = os.fork()
    if child == 0:
        is_right = not lock(masters).acquire() and lock(masters, f"{KEY}:child").acquire()
        os._exit(0 if is_right else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert known(mine.extend)
    mine.release()


def test_masters_of_a_middleware_tell_its_broker(
    make_idempotent: MakeIdempotent, make_worker: MakeWorker, runs: Runs, lockers: LockServers
) -> None:
    masters = lockers.masters(size=3)
    broker = make_idempotent(masters=masters)
    declare(broker, runs, idempotency_key="{url}").send("a")
    make_worker(broker)
    join(broker)

    assert len(runs) == 1
    assert Event.LOCK_ASKED in broker.told


def test_scripts_of_another_client_of_pottery_are_not_used(lockers: LockServers) -> None:
    with lockers[4].client() as client:
        shipped = ShippedRedlock(key="shipped", masters={client}, auto_release_time=2)
        assert shipped.acquire(blocking=False)
        shipped.release()

    mine = lock(lockers.masters(size=3))

    assert known(mine.acquire)
    assert known(mine.extend)
    assert type(mine)._extend_script is not ShippedRedlock._extend_script
    mine.release()


def test_scripts_that_a_server_has_forgotten_are_sent_again(lockers: LockServers) -> None:
    masters = lockers.masters(size=3)
    mine = lock(masters)
    assert known(mine.acquire)
    for client in lockers.clients():
        client.script_flush()

    assert known(mine.extend)
    for client in lockers.clients():
        client.script_flush()
    mine.release()

    lockers.wait_until_empty()


def test_threads_are_started_once_and_end_with_close(lockers: LockServers) -> None:
    before = threading.active_count()
    masters = lockers.masters(size=3)
    assert threading.active_count() == before

    for _ in range(50):
        is_free(masters, KEY)

    assert threading.active_count() == before + 3
    masters.close()
    assert threading.active_count() == before
    assert is_free(masters, KEY)  # it begins anew


def test_thread_that_begins_after_the_end_ends_too(lockers: LockServers) -> None:
    masters = lockers.masters(size=3)
    assert is_free(masters, KEY)
    (crew,) = masters._crews.values()

    masters.close()
    crew._threads[0]._start()

    wait_until(
        lambda: not any("lock-server" in each.name for each in threading.enumerate()),
        message="it has ended",
    )


def test_one_master_needs_no_thread(lockers: LockServers) -> None:
    before = threading.active_count()

    assert is_free(lockers.masters(size=1), KEY)

    assert threading.active_count() == before


def test_masters_copy_the_parameters_of_clients(lockers: LockServers) -> None:
    clients = [
        redis.Redis(unix_socket_path=server.socket, db=3, decode_responses=True)
        for server in lockers.servers[:3]
    ]
    masters = Masters(clients)
    mine = lock(masters)

    assert known(mine.acquire)

    with redis.Redis(unix_socket_path=lockers[0].socket, db=3) as client:
        wait_until(lambda: client.get(KEY), message="the key is in their database")
    assert all(not client.connection_pool._available_connections for client in clients)
    mine.release()
    masters.close()


def test_server_that_refuses_is_named_with_its_reason(lockers: LockServers) -> None:
    urls = []
    for server in lockers.servers[:3]:
        server.client().acl_setuser("reader", enabled=True, nopass=True, commands=["+get", "+ping"])
        urls.append(f"redis://reader:secret@127.0.0.1:{server.port}")
    masters = lockers.masters(*urls)

    with pytest.raises(LocksUnavailable, match=r"2 of 3 .*127.0.0.1.*permission") as told:
        lock(masters).acquire()

    assert "secret" not in str(told.value)


def test_pottery_can_be_imported_whatever_the_environment_says() -> None:
    source = (
        "import os, dramatiq_streams.middleware.idempotency.redlock; print(os.environ['REDIS_URL'])"
    )

    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        capture_output=True,
        text=True,
        env={**os.environ, "REDIS_URL": "embedded:///nowhere"},
    )

    assert (ended.returncode, ended.stdout) == (0, "embedded:///nowhere\n"), ended.stderr


def test_pottery_is_imported_only_for_those_who_use_it() -> None:
    source = (
        "import json, logging, sys, dramatiq_streams; dumps = json.dumps\n"
        "assert 'pottery' not in sys.modules\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "from dramatiq_streams.middleware import Idempotency; Idempotency()\n"
        "assert 'pottery' in sys.modules and json.dumps is not dumps\n"
    )

    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("servers", "text"),
    [
        ([], r"masters=\[\]"),
        ("redis://localhost", "list"),
        ([None], "redis.Redis"),
        (["ftp://localhost"], "ftp"),
        (["redis://a:1/0", "redis://b", "redis://u:p@a:1/2"], "a:1 twice"),
    ],
)
def test_impossible_masters_are_refused(servers: list[str], text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        Masters(servers)


@pytest.mark.parametrize("timeout", [0, -1, True, 1.5, "100", 60_001])
def test_impossible_timeout_is_refused(timeout: object) -> None:
    with pytest.raises(InvalidOption, match="master_timeout"):
        Masters(["redis://localhost"], master_timeout=timeout)  # type: ignore[arg-type]
