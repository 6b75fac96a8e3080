"""Locks on one, three and five masters that are all in order."""

import threading
import time

import pytest

from dramatiq_streams import InvalidOption, LocksUnavailable
from dramatiq_streams.events import Event
from dramatiq_streams.middleware.idempotency.masters import Masters
from dramatiq_streams.middleware.idempotency.redlock import Redlock
from tests.support.locking import KEY, LEASE_MS, LockServers, is_free, known, lock
from tests.support.waiting import wait_until

each_size = pytest.mark.parametrize("size", [1, 3, 5])


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
    mine = lock(masters, lease_ms=1_200)
    assert known(mine.acquire)
    ends = time.monotonic() + 1.5

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
    taken: list[str] = []
    together: list[str] = []
    started = time.monotonic()

    def is_enough() -> bool:
        seconds = time.monotonic() - started
        return seconds > 20 or (seconds > 1 and len(taken) > 10)

    def work() -> None:
        # Masters of its own, as another process has them.
        masters = lockers.masters(size=size)
        while not is_enough():
            mine = lock(masters)
            if known(mine.acquire):
                if alone.acquire(blocking=False):
                    taken.append(mine.owner)
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
    assert len(taken) > 10
    lockers.wait_until_empty()


@each_size
def test_uncontended_locks_are_always_granted(lockers: LockServers, size: int) -> None:
    masters = lockers.masters(size=size)

    for number in range(1_000):
        mine = lock(masters, f"{KEY}:{number}")
        assert known(mine.acquire)
        mine.release()

    lockers.wait_until_empty()


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


@pytest.mark.parametrize("lease_ms", [0, 599, True, 1_000.0, "1000"])
def test_lease_that_could_not_be_extended_in_time_is_refused(lease_ms: object) -> None:
    masters = Masters(["redis://localhost"])

    with pytest.raises(InvalidOption, match=r"600 or more with master_timeout=100"):
        Redlock(KEY, masters=masters, lease_ms=lease_ms)  # type: ignore[arg-type]
