"""Locks that are taken, extended and released within a budget of time."""

import time

from dramatiq_streams import LocksUnavailable
from dramatiq_streams.middleware.idempotency.masters import Masters
from dramatiq_streams.middleware.idempotency.redlock import Redlock
from tests.support.locking import KEY, is_free, lock
from tests.support.waiting import wait_until

#: An attempt takes at most so many timeouts, whatever the servers do, and what a busy machine adds.
BUDGET_IN_TIMEOUTS = 3
BUSY_SECONDS = 0.5

#: Where it is not about time, so that a busy machine's pauses are no faults.
PATIENT_MS = 300


def timed_acquire(mine: Redlock) -> bool:
    """Take it, within the budget."""
    started = time.monotonic()
    try:
        return mine.acquire()
    finally:
        budget = BUDGET_IN_TIMEOUTS * mine._servers.timeout_ms / 1000 + BUSY_SECONDS
        assert time.monotonic() - started < budget


def hold_often(masters: Masters, times: int = 20) -> None:
    """Take, extend and release it *times* times, each within the budget.

    One in five may fail: a busy machine stops a server for longer than its timeout now and then.
    """
    failures: list[Exception] = []
    for _ in range(times):
        try:
            _hold(masters)
        except LocksUnavailable as error:
            failures.append(error)
            wait_until(lambda: is_free_now(masters), message="the machine goes on")
    assert len(failures) <= times / 5, failures


def _hold(masters: Masters) -> None:
    mine = lock(masters)
    try:
        assert timed_acquire(mine)
        assert not timed_acquire(lock(masters))
        assert mine.extend()
    finally:
        mine.release()


def is_free_now(masters: Masters) -> bool:
    """Whether somebody else could take it now, and enough masters say so."""
    try:
        return is_free(masters, KEY)
    except LocksUnavailable:
        return False
