"""One thread per process that keeps what it holds: locks and records, every third of a lease.

A hold whose lock is lost, or whose record somebody else has by now, is marked; its actor is told
in its own thread, if it asked for that.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dramatiq.errors import BrokerConnectionError
from dramatiq.logging import get_logger
from dramatiq.threading import raise_thread_exception

from ... import clock
from ...errors import LeaseLost, LocksUnavailable, StreamsError
from ...events import Event, Events
from .masters import Masters
from .records import Records, Request

if TYPE_CHECKING:
    from .redlock import Redlock

#: After an extension of which nobody knows whether it took effect: this part of a lease later.
_AGAIN = 12

#: How long a thread waits for an interrupt that was sent to it and may be swallowed by its actor.
_ABSORB_MS = 20.0


@dataclass(eq=False)
class Hold:
    """The right of one thread to run *request*; *lock* is None where none could be had."""

    request: Request
    queue_name: str
    token: int
    lock: Redlock | None
    valid_until_ms: float
    interrupts: bool = False
    thread: threading.Thread = field(default_factory=threading.current_thread)
    next_ms: float = 0.0
    is_marked_lost: bool = False
    #: Its actor has ended: it is kept only until its end is noted, and interrupts nobody.
    has_ended: bool = False
    is_interrupted: bool = False
    #: Held while its lock is extended or released, and while its thread is interrupted.
    mutex: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def is_lost(self) -> bool:
        """Whether somebody else may hold it by now, as far as this process can know."""
        return self.is_marked_lost or clock.monotonic_ms() >= self.valid_until_ms


class Watchdog:
    """Keeps the holds of one process; its thread lives while there are any.

    Args:
        lease_ms: What each extension asks for.
    """

    def __init__(
        self, records: Records, masters: Masters, *, lease_ms: int, events: Events
    ) -> None:
        self.logger = get_logger(__name__, type(self))
        self._records = records
        self._masters = masters
        self._lease_ms = lease_ms
        self._events = events
        self._holds: set[Hold] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, hold: Hold) -> None:
        """Keep *hold* from now on."""
        hold.next_ms = clock.monotonic_ms() + self._lease_ms / 3
        with self._changed:
            self._holds.add(hold)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="dramatiq-streams-watchdog", daemon=True
                )
                self._thread.start()

    def let_go_of_thread(self) -> None:
        """Keep nothing for this thread, which begins another message.

        There is nothing, unless an interrupt came between a claim and its being noted.
        """
        thread = threading.current_thread()
        with self._changed:
            left = [hold for hold in self._holds if hold.thread is thread]
        for hold in left:
            self.logger.warning("Key %r was left behind by an interrupt.", hold.request.key)
            self.drop(hold)

    def end_actor(self, hold: Hold) -> None:
        """Interrupt the thread of *hold*, which is this one, no more; it stays kept."""
        with hold.mutex:
            hold.has_ended = True
        if hold.is_interrupted:
            _absorb_interrupt()

    def drop(self, hold: Hold) -> None:
        """Keep *hold* no longer, and let its lock go."""
        with self._changed:
            self._holds.discard(hold)
            if not self._holds:
                self._changed.notify()  # the thread may end
        with hold.mutex:
            hold.has_ended = True
            if hold.lock is not None:
                try:
                    hold.lock.release()
                except (BrokerConnectionError, StreamsError) as error:
                    self.logger.info("A lock is not released, and expires: %s", error)
                hold.lock = None

    def stop(self) -> None:
        """Let everything go; what is still running is marked as lost."""
        with self._changed:
            holds, thread = list(self._holds), self._thread
            self._holds.clear()
            self._changed.notify()
        for hold in holds:
            hold.is_marked_lost = True
            self.drop(hold)
        if thread is not None:
            thread.join(timeout=10)

    def keep_due(self) -> None:
        """Extend what is due, and look for what was lost."""
        now_ms = clock.monotonic_ms()
        due = [hold for hold in self._held() if hold.next_ms <= now_ms]
        alive = self._extended(due)
        try:
            lost = self._records.keep(
                [(hold.request, hold.token) for hold in alive], lease_ms=self._lease_ms
            )
        except (BrokerConnectionError, StreamsError) as error:
            self.logger.debug("Records of running keys are not prolonged: %s", error)
            return
        for position, hold in enumerate(alive):
            if position in lost:
                self._lose(hold, "its record says that another one has it")
            elif hold.lock is None:
                hold.valid_until_ms = max(hold.valid_until_ms, now_ms + self._lease_ms)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._holds:
                    # Whoever adds one now finds no thread, and starts another.
                    self._thread = None
                    return
                next_ms = min(hold.next_ms for hold in self._holds)
                self._changed.wait(max(next_ms - clock.monotonic_ms(), 0) / 1000)
            try:
                self.keep_due()
            except Exception:
                self.logger.exception("The watchdog goes on after a failure.")

    def _held(self) -> Sequence[Hold]:
        with self._changed:
            dead = {hold for hold in self._holds if not hold.thread.is_alive()}
            self._holds -= dead
            return sorted(self._holds, key=lambda hold: hold.valid_until_ms)

    def _extended(self, due: Sequence[Hold]) -> list[Hold]:
        """Extend the locks of *due*; returns those that are not known to be lost, or to be over."""
        from .redlock import Redlock  # there already, since locks were made

        begun_ms = clock.monotonic_ms()
        with ExitStack() as stack:  # so that none of them is released meanwhile
            for hold in due:
                stack.enter_context(hold.mutex)
                hold.next_ms = begun_ms + self._lease_ms / 3
            going = [hold for hold in due if hold in self._holds and not hold.is_marked_lost]
            locks = {hold: hold.lock for hold in going if hold.lock is not None}
            extended = Redlock.extend_all(list(locks.values()), masters=self._masters)
            outcomes = dict(zip(locks, extended, strict=True))
            losses = {
                hold: loss
                for hold, outcome in outcomes.items()
                if (loss := self._loss(hold, outcome, begun_ms=begun_ms))
            }
        for hold, (why, is_told) in losses.items():
            self._lose(hold, why, is_told=is_told)
        return [hold for hold in going if hold not in losses]

    def _loss(
        self, hold: Hold, outcome: bool | LocksUnavailable, *, begun_ms: float
    ) -> tuple[str, bool] | None:
        """Why *hold* is lost after *outcome*, and whether that is told; None if it is not."""
        if isinstance(outcome, LocksUnavailable):
            hold.next_ms = begun_ms + self._lease_ms / _AGAIN
            if hold.is_lost:
                return f"its lock could not be extended in time: {outcome}", False
        elif not outcome:
            return "its lock has expired, or was taken by another one", True
        elif hold.lock is not None:
            hold.valid_until_ms = clock.monotonic_ms() + hold.lock.valid_for_ms
        return None

    def _lose(self, hold: Hold, why: str, *, is_told: bool = False) -> None:
        with hold.mutex:
            if hold.has_ended or hold.is_marked_lost or hold not in self._holds:
                return
            hold.is_marked_lost = True
            if hold.interrupts and hold.thread.ident is not None:
                hold.is_interrupted = True
                raise_thread_exception(hold.thread.ident, LeaseLost)
        if not is_told:  # the lock itself tells of what it finds
            self._events.tell(Event.LOCK_LOST)
        self.logger.warning(
            "Key %r of queue %r is lost while message %s runs under it: %s.",
            hold.request.key,
            hold.queue_name,
            hold.request.message_id,
            why,
        )


def _absorb_interrupt() -> None:
    """Take in a `LeaseLost` that was sent to this thread and has not been raised in it yet.

    It must not come up in the middle of what is done after the actor.
    """
    try:
        deadline_ms = clock.monotonic_ms() + _ABSORB_MS
        while clock.monotonic_ms() < deadline_ms:
            pass
    except LeaseLost:
        return
