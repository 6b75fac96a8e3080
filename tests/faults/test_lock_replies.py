"""Lock servers that are cut off, are slow, or answer too late or not at all."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dramatiq_streams import LocksUnavailable
from dramatiq_streams.middleware.idempotency.redlock import Redlock
from tests.faults.conftest import Said
from tests.faults.locks import PATIENT_MS, hold_often, timed_acquire
from tests.support.locking import KEY, LEASE_MS, LockServers, is_free, lock
from tests.support.proxy import FaultyProxy
from tests.support.waiting import wait_until


def test_only_one_side_of_a_partition_gets_it(
    lockers: LockServers, proxies: list[FaultyProxy]
) -> None:
    here = lockers.masters(*(proxy.url for proxy in proxies), master_timeout=PATIENT_MS)
    there = lockers.masters(size=3, master_timeout=PATIENT_MS)
    mine = lock(here, lease_ms=1_800)
    assert mine.acquire()
    wait_until(lambda: lockers.values(KEY).count(mine.owner) == 3, message="all three have it")

    for proxy in proxies[:2]:
        proxy.refuse()

    with pytest.raises(LocksUnavailable):
        mine.extend()
    other = lock(there)
    assert not other.acquire()  # until the lease of the one that was cut off has ended
    wait_until(other.acquire, message="the lease has ended")
    assert mine.valid_for_ms == 0
    with pytest.raises(LocksUnavailable):
        lock(here).acquire()

    for proxy in proxies[:2]:
        proxy.heal()
    wait_until(lambda: not _knows_not(mine), message="it is told")
    assert mine.extend() is False
    mine.release()
    assert other.extend()
    other.release()
    lockers.wait_until_empty(timeout=LEASE_MS / 1000 + 1)


def _knows_not(mine: Redlock) -> bool:
    try:
        return mine.extend()
    except LocksUnavailable:
        return True


@pytest.mark.parametrize("seconds", [0.05, 0.25])
def test_slow_master_is_not_waited_for(
    lockers: LockServers, proxies: list[FaultyProxy], seconds: float
) -> None:
    urls = [proxies[0].url, lockers[1].url, lockers[2].url]
    masters = lockers.masters(*urls)
    is_free(masters, KEY)
    proxies[0].delay_replies(seconds)

    started = time.monotonic()
    hold_often(masters, 10)

    assert time.monotonic() - started < 1.5  # 40 calls that wait for it: 2 seconds or more
    proxies[0].heal()
    lockers.wait_until_empty()


def test_all_masters_slow_within_their_timeout_is_in_order(
    lockers: LockServers, proxies: list[FaultyProxy]
) -> None:
    masters = lockers.masters(*(proxy.url for proxy in proxies), master_timeout=PATIENT_MS)
    is_free(masters, KEY)
    for proxy in proxies:
        proxy.delay_replies(0.03)

    hold_often(masters, 5)


def test_many_threads_share_the_way_to_masters_that_are_far_away(
    lockers: LockServers, proxies: list[FaultyProxy]
) -> None:
    masters = lockers.masters(*(proxy.url for proxy in proxies), master_timeout=PATIENT_MS)
    is_free(masters, KEY)
    for proxy in proxies:
        proxy.delay_replies(0.1)

    def hold(number: int) -> None:
        mine = lock(masters, f"{KEY}:{number}", lease_ms=60_000)
        assert timed_acquire(mine)
        assert mine.extend()
        mine.release()

    with ThreadPoolExecutor(16) as executor:  # one after the other they would need 1.6 seconds
        list(executor.map(hold, range(64)))

    for proxy in proxies:
        proxy.heal()
    lockers.wait_until_empty()


@pytest.mark.parametrize("size", [1, 3])
def test_many_locks_are_extended_together(
    lockers: LockServers, proxies: list[FaultyProxy], size: int
) -> None:
    masters = lockers.masters(*(proxy.url for proxy in proxies[:size]), master_timeout=PATIENT_MS)
    locks = [lock(masters, f"{KEY}:{number}", lease_ms=60_000) for number in range(32)]
    assert all(timed_acquire(each) for each in locks)
    for proxy in proxies:
        proxy.delay_replies(0.1)

    started = time.monotonic()
    assert Redlock.extend_all(locks, masters=masters) == [True] * 32

    assert time.monotonic() - started < 1  # one after the other: 3.2 seconds
    for proxy in proxies:
        proxy.heal()
    for each in locks:
        each.release()
    lockers.wait_until_empty()


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("times", [1, 2])
def test_lost_reply_leaves_no_key(
    lockers: LockServers, proxies: list[FaultyProxy], said: Said, size: int, times: int
) -> None:
    masters = lockers.masters(*(proxy.url for proxy in proxies[:size]), master_timeout=PATIENT_MS)
    for proxy in proxies[:size]:
        proxy.drop_reply(rb"^SET ", times=times)
    mine = lock(masters, lease_ms=60_000)

    # It is tried once more when the first replies are lost.
    assert _is_granted(mine) is (times == 1)

    mine.release()
    lockers.wait_until_empty(timeout=3)
    assert is_free(masters, KEY)
    # One connection ended: no master was away.
    assert said.lines() == []


def _is_granted(mine: Redlock) -> bool:
    try:
        return timed_acquire(mine)
    except LocksUnavailable:
        return False


def test_lost_reply_of_one_master_is_no_loss(
    lockers: LockServers, proxies: list[FaultyProxy]
) -> None:
    masters = lockers.masters(*(proxy.url for proxy in proxies), master_timeout=PATIENT_MS)
    proxies[1].drop_reply(rb"^SET ")
    mine = lock(masters, lease_ms=60_000)

    assert timed_acquire(mine)

    mine.release()
    lockers.wait_until_empty(timeout=3)


@pytest.mark.parametrize("size", [1, 3])
def test_lost_reply_to_a_release_leaves_no_key_and_no_wrong_lock(
    lockers: LockServers, proxies: list[FaultyProxy], size: int
) -> None:
    masters = lockers.masters(*(proxy.url for proxy in proxies[:size]), master_timeout=PATIENT_MS)
    for proxy in proxies[:size]:
        proxy.drop_before(rb"^EVAL")
    mine = lock(masters, lease_ms=60_000)
    assert mine.acquire()

    mine.release()

    wait_until(lambda: is_free(masters, KEY), timeout=3, message="it was released after all")
    lockers.wait_until_empty(timeout=3)


@pytest.mark.parametrize("late", [1, 2, 3])
@pytest.mark.parametrize("times", [1, 2])
def test_late_reply_leaves_no_key(
    lockers: LockServers, proxies: list[FaultyProxy], late: int, times: int
) -> None:
    # An attempt that waits for one timeout leaves one and a half: a half for a busy machine.
    masters = lockers.masters(*(proxy.url for proxy in proxies), master_timeout=3 * PATIENT_MS)
    for proxy in proxies[:late]:
        proxy.delay_replies(2.1, pattern=rb"^SET ", times=times)
    mine = lock(masters, lease_ms=60_000)

    assert _is_granted(mine) is (late == 1 or times == 1)

    mine.release()
    lockers.wait_until_empty(timeout=5)
