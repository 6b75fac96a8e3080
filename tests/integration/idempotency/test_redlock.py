"""Locks on one, three and five masters that are all in order."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import redis
from pottery import Redlock as ShippedRedlock

from dramatiq_streams import InvalidOption, LocksUnavailable
from dramatiq_streams.events import Event
from dramatiq_streams.middleware.idempotency.masters import Masters
from dramatiq_streams.middleware.idempotency.redlock import Redlock
from tests.support.locking import LEASE_MS, LockServers, is_free, known
from tests.support.waiting import wait_until

each_size = pytest.mark.parametrize("size", [1, 3, 5])

KEY = "{locks}:a"


def lock(masters: Masters, key: str = KEY, *, lease_ms: int = LEASE_MS) -> Redlock:
    return Redlock(key, masters=masters, lease_ms=lease_ms)


@each_size
def test_one_holder_at_a_time(lockers: LockServers, size: int) -> None:
    masters = lockers.masters(size=size)
    mine, other = lock(masters), lock(masters)

    assert known(mine.acquire)

    assert not known(other.acquire)
    assert other.valid_for_ms == 0
    mine.release()
    assert known(other.acquire)
    other.release()
    lockers.wait_until_empty()


def test_key_is_as_it_was_given_and_has_the_owner_and_a_lease(lockers: LockServers) -> None:
    mine = lock(lockers.masters(size=3))

    assert known(mine.acquire)

    wait_until(lambda: lockers.values(KEY)[:3] == [mine.owner] * 3, message="all three have it")
    assert mine.key == KEY
    for client in lockers.clients()[:3]:
        assert 0 < client.pttl(KEY) <= LEASE_MS
    mine.release()


def test_it_is_valid_for_less_than_its_lease(lockers: LockServers) -> None:
    mine = lock(lockers.masters(size=3))

    assert known(mine.acquire)
    first = mine.valid_for_ms

    assert 0 < first < LEASE_MS * 0.99 - 2 + 0.001
    wait_until(lambda: mine.valid_for_ms < first, message="it counts down")
    assert mine.locked() <= first / 1000
    mine.release()
    assert mine.valid_for_ms == 0


def test_lease_of_odd_length_is_not_shortened(lockers: LockServers) -> None:
    # 1.001 * 1000 is 1000.9999999999999.
    mine = lock(lockers.masters(size=1), lease_ms=1_001)
    command = mine._noted(mine._Redlock__acquire_master)  # type: ignore[attr-defined]

    assert command.words == ("SET", KEY, mine.owner, "PX", 1_001, "NX")


@each_size
def test_it_can_be_extended_without_end(lockers: LockServers, size: int) -> None:
    masters = lockers.masters(size=size)
    mine = lock(masters, lease_ms=600)
    assert known(mine.acquire)
    ends = time.monotonic() + 0.9

    while time.monotonic() < ends:
        assert known(mine.extend)

    assert mine.valid_for_ms > 0
    assert not known(lock(masters).acquire)
    mine.release()


@each_size
def test_expired_lock_can_be_taken_and_its_holder_cannot_extend_or_release_it(
    lockers: LockServers, size: int
) -> None:
    masters = lockers.masters(size=size, master_timeout=50)
    mine, other = lock(masters, lease_ms=300), lock(lockers.masters(size=size))
    assert known(mine.acquire)

    wait_until(lambda: known(other.acquire), message="the lease has expired")

    assert mine.valid_for_ms == 0
    assert not known(mine.extend)
    mine.release()
    assert not is_free(masters, KEY)
    assert known(other.extend)
    other.release()


def test_lock_that_a_minority_has_lost_is_extended(lockers: LockServers) -> None:
    mine = lock(lockers.masters(size=3))
    assert known(mine.acquire)

    lockers[1].client().delete(KEY)

    assert known(mine.extend)
    mine.release()


def test_lock_that_a_majority_has_lost_is_lost(lockers: LockServers) -> None:
    mine = lock(lockers.masters(size=3))
    assert known(mine.acquire)
    wait_until(lambda: lockers.values(KEY).count(mine.owner) == 3, message="all three have it")

    for number in (0, 1):
        lockers[number].client().delete(KEY)

    assert not known(mine.extend)
    assert mine.valid_for_ms == 0
    mine.release()
    lockers.wait_until_empty()


def test_released_lock_cannot_be_extended_and_is_not_counted_as_lost(lockers: LockServers) -> None:
    masters = lockers.masters(size=3)
    told: list[Event] = []
    masters.events.listen(lambda event, _label, _amount: told.append(event))
    mine = lock(masters)
    assert known(mine.acquire)

    mine.release()

    assert not known(mine.extend)
    assert Event.LOCK_LOST not in told


def test_lock_can_be_taken_again_after_its_release(lockers: LockServers) -> None:
    mine = lock(lockers.masters(size=3))
    owners = set()

    for _ in range(3):
        assert known(mine.acquire)
        owners.add(mine.owner)
        mine.release()

    assert len(owners) == 3
    lockers.wait_until_empty()


def test_lock_is_a_context_manager_as_pottery_has_it(lockers: LockServers) -> None:
    masters = lockers.masters(size=3)

    with lock(masters) as mine:
        assert mine.valid_for_ms > 0
        with pytest.raises(LocksUnavailable, match="held"), lock(masters):
            pytest.fail("two holders")

    assert is_free(masters, KEY)


@pytest.mark.parametrize("size", [1, 3])
def test_threads_of_several_processes_worth_of_masters_never_hold_it_together(
    lockers: LockServers, size: int
) -> None:
    alone = threading.Lock()
    taken = itertools.count()
    together: list[str] = []
    deadline = time.monotonic() + 1.0

    def work() -> None:
        # Masters of its own, as another process has them.
        masters = lockers.masters(size=size)
        while time.monotonic() < deadline:
            mine = lock(masters)
            if mine.acquire():
                if alone.acquire(blocking=False):
                    next(taken)
                    alone.release()
                else:
                    together.append(mine.owner)
                mine.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert together == []
    assert next(taken) > 10
    lockers.wait_until_empty()


@each_size
def test_uncontended_locks_are_always_granted(lockers: LockServers, size: int) -> None:
    masters = lockers.masters(size=size)

    for number in range(1_000):
        mine = lock(masters, f"{KEY}:{number}")
        assert known(mine.acquire)
        mine.release()

    lockers.wait_until_empty()


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


def test_what_happens_to_locks_is_told(lockers: LockServers) -> None:
    masters = lockers.masters(size=3, master_timeout=1_000)
    told: list[tuple[Event, str]] = []
    seconds: list[float] = []

    def note(event: Event, label: str, amount: float) -> None:
        told.append((event, label))
        seconds.append(amount)

    masters.events.listen(note)
    mine = lock(masters, lease_ms=10_000)
    assert known(mine.acquire)
    lock(masters, lease_ms=10_000).acquire()
    mine.extend()
    for client in lockers.clients():
        client.flushall()
    mine.extend()

    assert told == [
        (Event.LOCK_ASKED, "acquired"),
        (Event.LOCK_ASKED, "held"),
        (Event.LOCK_EXTENDED, ""),
        (Event.LOCK_LOST, ""),
    ]
    assert all(0 < each < 5 for each in seconds[:2])


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


@pytest.mark.parametrize("lease_ms", [0, 599, True, 1_000.0, "1000"])
def test_lease_that_could_not_be_extended_in_time_is_refused(lease_ms: object) -> None:
    masters = Masters(["redis://localhost"])

    with pytest.raises(InvalidOption, match=r"600 or more with master_timeout=100"):
        Redlock(KEY, masters=masters, lease_ms=lease_ms)  # type: ignore[arg-type]
