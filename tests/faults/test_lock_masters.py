"""Lock servers that are down, hang, restart or forget."""

import threading
import time

import pytest

from dramatiq_streams import LocksUnavailable
from dramatiq_streams.middleware.idempotency.redlock import Redlock
from tests.faults.conftest import Said
from tests.faults.locks import (
    BUDGET_IN_TIMEOUTS,
    BUSY_SECONDS,
    PATIENT_MS,
    hold_often,
    is_free_now,
    timed_acquire,
)
from tests.support.locking import KEY, LEASE_MS, LockServers, is_free, lock
from tests.support.waiting import wait_until


def lock_threads() -> list[str]:
    """The names of the threads that talk to masters, each once."""
    return sorted(each.name for each in threading.enumerate() if "lock-server" in each.name)


@pytest.mark.parametrize(("size", "down"), [(3, [0]), (3, [2]), (5, [1, 3])])
def test_minority_that_is_down_is_done_without(
    lockers: LockServers, said: Said, size: int, down: list[int]
) -> None:
    masters = lockers.masters(size=size, master_timeout=PATIENT_MS)
    is_free(masters, KEY)
    wait_until(lambda: len(lock_threads()) == size, message="each master has its thread")
    before = lock_threads()
    for number in down:
        lockers[number].kill()

    hold_often(masters)

    assert lock_threads() == before
    for number in down:
        lockers[number].start()
    for number in down:
        said.wait_for_return(masters, number)
    lockers.wait_until_empty()


@pytest.mark.parametrize(("size", "hanging"), [(3, [0]), (5, [0, 4])])
def test_minority_that_hangs_costs_next_to_nothing_and_keeps_no_key(
    lockers: LockServers, said: Said, size: int, hanging: list[int]
) -> None:
    masters = lockers.masters(size=size)
    is_free(masters, KEY)
    wait_until(lambda: len(lock_threads()) == size, message="each master has its thread")
    before = lock_threads()
    for number in hanging:
        lockers[number].pause()

    started = time.monotonic()
    hold_often(masters)

    assert time.monotonic() - started < 4  # 80 calls that wait for a timeout each: 8 seconds
    assert lock_threads() == before
    wait_until(
        lambda: all(said.of(masters, number) == ["away"] for number in hanging), message="noticed"
    )
    hold_often(masters)
    for number in hanging:
        lockers[number].resume()
    for number in hanging:
        said.wait_for_return(masters, number)
    # What it took in while it hung is done first, and then taken back: well before the lease ends.
    lockers.wait_until_empty(timeout=1)


def test_lock_that_was_held_when_a_master_began_to_hang_is_released_there_too(
    lockers: LockServers,
) -> None:
    masters = lockers.masters(size=3)
    mine = lock(masters, lease_ms=60_000)
    mine.acquire()
    wait_until(lambda: lockers.values(KEY).count(mine.owner) == 3, message="all three have it")

    lockers[1].pause()
    assert mine.extend()
    mine.release()
    lockers[1].resume()

    lockers.wait_until_empty(timeout=5)


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_without_a_quorum_nobody_gets_it_and_the_rest_keeps_no_key(
    lockers: LockServers, said: Said, how: str
) -> None:
    masters = lockers.masters(size=3)
    is_free(masters, KEY)
    for number in (0, 1):
        getattr(lockers[number], how)()

    for _ in range(10):
        with pytest.raises(LocksUnavailable, match="Fewer than 2 of 3"):
            timed_acquire(lock(masters, lease_ms=60_000))

    wait_until(lambda: not lockers[2].client().dbsize(), message="nothing is left on the third")
    for number in (0, 1):
        lockers[number].start()
        lockers[number].resume()
    for number in (0, 1):
        said.wait_for_return(masters, number)
    assert is_free(masters, KEY)
    lockers.wait_until_empty(timeout=5)


def test_lock_whose_quorum_is_away_is_not_lost_before_its_lease_is(lockers: LockServers) -> None:
    masters = lockers.masters(size=3)
    mine = lock(masters)
    mine.acquire()
    wait_until(lambda: lockers.values(KEY).count(mine.owner) == 3, message="all three have it")
    for number in (0, 1):
        lockers[number].pause()

    with pytest.raises(LocksUnavailable):
        mine.extend()
    assert mine.valid_for_ms > 0

    for number in (0, 1):
        lockers[number].resume()
    wait_until(lambda: _extends(mine), timeout=LEASE_MS / 1000, message="it is extended in time")
    mine.release()


def _extends(mine: Redlock) -> bool:
    try:
        return mine.extend()
    except LocksUnavailable:
        return False


def test_master_that_restarted_empty_can_make_two_holders_and_the_first_finds_out(
    lockers: LockServers,
) -> None:
    # Why masters must come back with their keys, or late: see docs/explanation/redlock.md.
    masters = lockers.masters(size=3, master_timeout=PATIENT_MS)
    lockers[2].kill()
    mine = lock(masters, lease_ms=60_000)
    assert mine.acquire()
    lockers[2].start()
    lockers[1].restart(keep_data=False)

    other = lock(lockers.masters(size=3, master_timeout=PATIENT_MS))
    assert other.acquire()

    assert mine.valid_for_ms > 0
    assert mine.extend() is False
    assert other.extend()
    mine.release()
    other.release()
    lockers.wait_until_empty()


def test_master_that_restarted_with_its_keys_makes_one_holder(start_server) -> None:
    servers = [start_server(tcp=True, appendonly=number == 1) for number in range(3)]
    lockers = LockServers(servers)
    masters = lockers.masters(size=3, master_timeout=PATIENT_MS)
    lockers[2].kill()
    mine = lock(masters, lease_ms=60_000)
    assert mine.acquire()
    lockers[2].start()
    lockers[1].kill()
    lockers[1].start()

    assert not lock(lockers.masters(size=3, master_timeout=PATIENT_MS)).acquire()

    assert mine.extend()
    mine.release()
    lockers.wait_until_empty()
    lockers.close()


def test_one_master_that_hangs_is_waited_for_once(lockers: LockServers, said: Said) -> None:
    masters = lockers.masters(size=1)
    is_free(masters, KEY)
    lockers[0].pause()

    with pytest.raises(LocksUnavailable, match="Timeout"):
        timed_acquire(lock(masters, lease_ms=60_000))
    started = time.monotonic()
    for _ in range(5):
        with pytest.raises(LocksUnavailable):
            lock(masters).acquire()
    assert time.monotonic() - started < 0.4  # if each waited: half a second or more

    lockers[0].resume()
    wait_until(lambda: is_free_now(masters), message="it is asked again")
    assert said.of(masters, 0) == ["away", "back"]
    lockers.wait_until_empty(timeout=1)


def test_many_threads_wait_for_a_hanging_master_once_each_at_most(lockers: LockServers) -> None:
    masters = lockers.masters(size=1)
    is_free(masters, KEY)
    lockers[0].pause()
    refused: list[float] = []

    def work() -> None:
        for number in range(20):
            started = time.monotonic()
            with pytest.raises(LocksUnavailable):
                lock(masters, f"{KEY}:{number}").acquire()
            refused.append(time.monotonic() - started)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(refused) == 160
    assert max(refused) < BUDGET_IN_TIMEOUTS * 0.1 + BUSY_SECONDS
    # The first of each thread, and a probe now and then; and whoever a busy machine held up.
    assert sum(seconds > 0.05 for seconds in refused) <= 160 / 4
    lockers[0].resume()


def test_masters_whose_servers_all_restart_go_on(lockers: LockServers, said: Said) -> None:
    masters = lockers.masters(size=3)
    is_free(masters, KEY)

    for number in range(3):
        lockers[number].restart(keep_data=False)

    # Nobody asked meanwhile: connections that have ended are no outage.
    assert is_free(masters, KEY)
    assert said.lines() == []


def test_closing_is_quick_while_a_master_hangs(lockers: LockServers) -> None:
    masters = lockers.masters(size=3)
    mine = lock(masters)
    mine.acquire()
    lockers[0].pause()
    mine.release()

    started = time.monotonic()
    masters.close()

    assert time.monotonic() - started < 1
    lockers[0].resume()
    lockers.wait_until_empty(timeout=LEASE_MS / 1000 + 1)
