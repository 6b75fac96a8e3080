"""Lock servers that are down, hang, are cut off, are slow, forget, or answer too late."""

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from dramatiq_streams import LocksUnavailable
from dramatiq_streams.middleware.idempotency.master import Master
from dramatiq_streams.middleware.idempotency.masters import Masters
from dramatiq_streams.middleware.idempotency.redlock import Redlock
from tests.conftest import _new_server
from tests.support.locking import LEASE_MS, LockServers, is_free, lock_servers
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

KEY = "{locks}:a"

#: An attempt takes at most so many timeouts, whatever the servers do: 300 ms by default.
BUDGET_IN_TIMEOUTS = 3

#: Where it is not about time, so that a busy machine's pauses are no faults.
PATIENT_MS = 300


@pytest.fixture(scope="module")
def _five_servers() -> Iterator[list[Server]]:
    with lock_servers(5, _new_server) as servers:
        yield servers


@pytest.fixture
def lockers(_five_servers: list[Server]) -> Iterator[LockServers]:
    """Five running servers without a key."""
    made = LockServers(_five_servers)
    yield made
    made.close()


@pytest.fixture
def proxies(lockers: LockServers) -> Iterator[list[FaultyProxy]]:
    """A proxy in front of each of the first three."""
    made = [FaultyProxy(server) for server in lockers.servers[:3]]
    for proxy in made:
        proxy.accept()
    yield made
    for proxy in made:
        proxy.close()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator["Said"]:
    """What was logged of lock servers."""
    with caplog.at_level(logging.INFO, logger=Master.__module__):
        yield Said(caplog)


class Said:
    """The lines of the log about a lock server, without those for debugging."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def lines(self) -> list[str]:
        names = ("dramatiq_streams", "pottery")
        return [
            record.getMessage()
            for record in self._caplog.records
            if record.name.startswith(names) and record.levelno >= logging.INFO
        ]

    def of(self, masters: Masters, number: int) -> list[str]:
        """What was said of master *number*: one word for each line."""
        name = masters.names[number]
        return [line.split(name)[1].split()[1].strip(".:") for line in self.lines() if name in line]

    def wait_for_return(self, masters: Masters, number: int) -> None:
        wait_until(
            lambda: self.of(masters, number) == ["away", "back"],
            message=f"one line each for both ends: {self.lines()}",
        )


def lock(masters: Masters, key: str = KEY, *, lease_ms: int = LEASE_MS) -> Redlock:
    return Redlock(key, masters=masters, lease_ms=lease_ms)


def timed_acquire(mine: Redlock) -> bool:
    """Take it, within the budget."""
    started = time.monotonic()
    try:
        return mine.acquire()
    finally:
        budget = BUDGET_IN_TIMEOUTS * mine._servers.timeout_ms / 1000
        assert time.monotonic() - started < budget


def lock_threads() -> list[str]:
    """The names of the threads that talk to masters, each once."""
    return sorted(each.name for each in threading.enumerate() if "lock-server" in each.name)


def hold_often(masters: Masters, times: int = 20) -> None:
    """Take, extend and release it *times* times, each within the budget.

    One of them may fail: a busy machine stops a server for longer than its timeout now and then.
    """
    failures: list[Exception] = []
    for _ in range(times):
        try:
            _hold(masters)
        except LocksUnavailable as error:
            failures.append(error)
            wait_until(lambda: _is_free_now(masters), message="the machine goes on")
    assert len(failures) <= 1, failures


def _hold(masters: Masters) -> None:
    mine = lock(masters)
    try:
        assert timed_acquire(mine)
        assert not timed_acquire(lock(masters))
        assert mine.extend()
    finally:
        mine.release()


def _is_free_now(masters: Masters) -> bool:
    try:
        return is_free(masters, KEY)
    except LocksUnavailable:
        return False


@pytest.mark.parametrize(("size", "down"), [(3, [0]), (3, [2]), (5, [1, 3])])
def test_minority_that_is_down_is_done_without(
    lockers: LockServers, said: Said, size: int, down: list[int]
) -> None:
    masters = lockers.masters(size=size, master_timeout=PATIENT_MS)
    is_free(masters, KEY)
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
    before = lock_threads()
    for number in hanging:
        lockers[number].pause()

    started = time.monotonic()
    hold_often(masters)

    assert time.monotonic() - started < 2
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

    assert time.monotonic() - started < 1
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
    masters = lockers.masters(*(proxy.url for proxy in proxies), master_timeout=PATIENT_MS)
    for proxy in proxies[:late]:
        proxy.delay_replies(0.7, pattern=rb"^SET ", times=times)
    mine = lock(masters, lease_ms=60_000)

    assert _is_granted(mine) is (late == 1 or times == 1)

    mine.release()
    lockers.wait_until_empty(timeout=5)


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
    assert time.monotonic() - started < 0.1

    lockers[0].resume()
    wait_until(lambda: _is_free_now(masters), message="it is asked again")
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
    assert max(refused) < BUDGET_IN_TIMEOUTS * 0.1
    # The first of each thread, and a probe now and then.
    assert sum(seconds > 0.05 for seconds in refused) <= 8 + 4
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
