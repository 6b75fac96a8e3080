"""What a consumer fetches, when, and how much: its reads, and its waits in between."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Sequence

from dramatiq.errors import ConnectionClosed
from dramatiq.logging import get_logger

from . import clock
from .errors import GroupMissing
from .events import Event
from .forwarding import Forwarding
from .lanes import Credits, Lanes
from .messages import Entry
from .queues import Queues
from .settlement import Settlement

#: Milliseconds after which a paused queue is looked at again.
PAUSED_MS = 250.0

#: Milliseconds without room after which others may have what is held beyond the limit.
PATIENCE_MS = 100.0

#: The most milliseconds that a thread is left idle so that another queue may be the first.
TURN_MS = 5.0

#: After this many blocking reads in a row that brought nothing, the next read is a full one.
QUIET_ROUNDS = 8


class Fetcher:
    """Fetches deliveries of one queue for one consumer, whose thread alone calls it.

    Args:
        prefetch: The most deliveries that may be unsettled at a time.
        forwarder: Forwards what is due while the connection of *queues* is blocked.
        register: Lets others know of this process, before anything is delivered to it.
    """

    def __init__(
        self,
        queue_name: str,
        *,
        prefetch: int,
        lease_ms: int,
        lanes: Lanes,
        queues: Queues,
        forwarder: Queues,
        settlement: Settlement,
        register: Callable[[], None],
    ) -> None:
        self.logger = get_logger(__name__, type(self))
        self.queue_name = queue_name
        self._prefetch = prefetch
        self._lease_ms = lease_ms
        self._lane_count = len(lanes.names)
        self._credits = Credits(lanes)
        self._queues = queues
        self._settlement = settlement
        self._holdings = settlement.holdings
        self._register = register
        self._forwarding = Forwarding(queue_name, forwarder)
        self._last_ids: list[str] = []
        self._reconcile_at_ms = 0.0
        self._quiet_rounds = 0
        self._is_ready = False
        self._is_paused = False
        #: Since when there has been no room.
        self._full_since_ms: float | None = None

    def fetch(self, left_ms: float) -> Sequence[Entry]:
        """Fetch something, or wait up to *left_ms* for a reason to try again.

        Raises:
            BrokerConnectionError: The server cannot be reached or cannot serve; nothing is lost.
        """
        return self._prepared(lambda: self._read_or_wait(left_ms))

    def attend(self) -> bool:
        """Send the acks that wait and forward what is due, but fetch nothing.

        Returns:
            Whether the server was needed for it, and has served.

        Raises:
            BrokerConnectionError: As `fetch`.
        """
        self._quiet_rounds = 0  # Meanwhile it is others who are woken.
        self._settlement.give_back_excess(self._prefetch, owner=self)
        is_due = self._forwarding.seconds_left() <= 0
        if self._is_ready and not is_due and not self._holdings.has_acks:
            return False
        self._prepared(lambda: self._read(0))
        return True

    def begin_anew(self) -> None:
        """Take nothing for granted: the connection broke, and the server may be another one."""
        self._is_ready = False
        self._reconcile_at_ms = 0.0  # A reply may have been lost.
        self._quiet_rounds = 0
        self._last_ids = []

    def disown(self) -> None:
        """What was fetched counts against the next consumer's prefetch from now on."""
        self._holdings.disown(self)

    def _prepared(self, read: Callable[[], Sequence[Entry]]) -> Sequence[Entry]:
        with self._holdings.carrying():
            try:
                if not self._is_ready:
                    self._queues.ensure_groups(self.queue_name)
                    self._register()
                    self._is_ready = True
                self._reconcile()
                return read()
            except GroupMissing as error:
                self._create_groups(error)
                return ()

    def _read_or_wait(self, left_ms: float) -> Sequence[Entry]:
        budget = self._holdings.room(self._prefetch, owner=self)
        if budget <= 0:
            return self._wait_for_room(left_ms)
        self._full_since_ms = None
        if not self._holdings.may_block(self._prefetch, self._lane_count, owner=self):
            return self._read(budget, watch=True) or self._wait(left_ms)
        if self._is_quiet():
            return self._block(left_ms)
        return self._read(budget) or self._block(left_ms)

    def _is_quiet(self) -> bool:
        """Whether the last round brought nothing: then the next may block at once.

        Whatever changes wakes a blocked consumer. Should that one die of it, the others notice
        when they read again after a few rounds.
        """
        return self._quiet_rounds % QUIET_ROUNDS > 0 and not self._holdings.has_acks

    def _wait_for_room(self, left_ms: float) -> Sequence[Entry]:
        """All that may be held is held: wait for an ack, but go on forwarding what is due."""
        now_ms = clock.monotonic_ms()
        self._full_since_ms = self._full_since_ms or now_ms
        if now_ms - self._full_since_ms >= PATIENCE_MS:
            self._settlement.give_back_excess(self._prefetch, owner=self)
        wait_ms = min(left_ms, self._forwarding.seconds_left() * 1000, PATIENCE_MS)
        if self._holdings.wait_for_room(self._prefetch, owner=self, timeout_ms=wait_ms):
            if self._holdings.is_contended:
                # Each queue that waits for the thread has its chance, not the quickest always.
                time.sleep(random.uniform(0, TURN_MS) / 1000)
            return ()
        if self._forwarding.seconds_left() <= 0 or self._holdings.has_acks:
            return self._read(0)
        return ()

    def _read(self, budget: int, *, watch: bool = False) -> Sequence[Entry]:
        acks = self._holdings.take_acks()
        shares = self._credits.grant(budget)
        begun_ms = clock.monotonic_ms()
        try:
            with self._holdings.reading():
                reading = self._queues.read(
                    self.queue_name,
                    budget,
                    shares=shares,
                    acks=acks,
                    watch=watch,
                )
                self._holdings.note_read(
                    clock.monotonic_ms() - begun_ms, is_dry=len(reading.entries) < budget
                )
                self._hold(reading.entries, begun_ms)
        except BaseException:
            self._holdings.put_back(acks)
            raise
        self._settlement.confirm(acks, reading.refused)
        self._note_pause(reading.is_paused)
        if budget:
            self._spend(reading.entries)
        self._forwarding.expect(reading)
        self._last_ids = reading.last_ids
        return reading.entries

    def _wait(self, wait_ms: float) -> Sequence[Entry]:
        """Wait for something to read without taking it: the budget may not be enough for it."""
        if not self._last_ids or not self._holdings.pause_carrying():
            return ()
        try:
            self._queues.wait(
                self.queue_name,
                math.ceil(wait_ms),
                last_ids=self._last_ids,
                alarm=self._forwarding,
            )
        finally:
            self._holdings.resume_carrying()
            self._holdings.note_dry()
        return ()

    def _block(self, wait_ms: float) -> Sequence[Entry]:
        """Wait for something to read and take it, an entry of each lane at most."""
        if not self._holdings.pause_carrying():
            return ()
        begun_ms = clock.monotonic_ms()
        try:
            if self._is_paused:
                time.sleep(min(wait_ms, PAUSED_MS) / 1000)
                return ()
            with self._holdings.reading():
                blocked = self._queues.read_blocking(
                    self.queue_name, math.ceil(wait_ms), alarm=self._forwarding
                )
                self._hold(blocked.entries, begun_ms, wait_ms)
        finally:
            self._holdings.resume_carrying()
            self._holdings.note_dry()
        for wake in blocked.wakes:
            self._holdings.acknowledge(wake)
        if self._holdings.room(self._prefetch, owner=self) < 0:
            self._full_since_ms = -math.inf  # What came to several lanes at once does not wait.
        self._quiet_rounds = 0 if blocked.entries or blocked.wakes else self._quiet_rounds + 1
        return blocked.entries

    def _hold(self, entries: Sequence[Entry], begun_ms: float, wait_ms: float = 0.0) -> None:
        """Note *entries*, delivered at some time in a read that blocked for up to *wait_ms*.

        Half a lease is allowed for between the delivery and now. A read that took longer than it
        may block was answered long ago, and this process was stopped meanwhile.
        """
        self._settlement.events.tell(Event.FETCHED, self.queue_name)
        answered_ms = min(clock.monotonic_ms(), begun_ms + wait_ms)
        for entry in entries:
            entry.leased_at_ms = max(begun_ms, answered_ms - self._lease_ms / 2)
        self._holdings.add(entries, owner=self)

    def _reconcile(self) -> None:
        """After an error, and now and then: give back what a lost reply has left in our name."""
        now_ms = clock.monotonic_ms()
        if now_ms < self._reconcile_at_ms:
            return
        with self._holdings.reconciling() as is_alone:
            if is_alone:
                self._queues.release_unheld(self.queue_name, self._holdings.known())
        self._reconcile_at_ms = now_ms + self._lease_ms

    def _create_groups(self, error: GroupMissing) -> None:
        """The queue was flushed, evicted or lost with its server: begin anew. Or it is paused."""
        try:
            if not self._queues.ensure_groups(self.queue_name):
                self._note_pause(True)
                return
            self.logger.warning("Queue %r had to be created again: %s", self.queue_name, error)
        except GroupMissing as again:
            raise ConnectionClosed(f"The consumer group cannot be created: {again}") from again
        # The other lanes may have been read before the missing one was found: a lost reply.
        self._reconcile_at_ms = 0.0

    def _note_pause(self, is_paused: bool) -> None:
        if is_paused:
            self._quiet_rounds = 0  # The next round has to ask whether it is over.
        if is_paused and not self._is_paused:
            self.logger.info("Queue %r is paused: nothing is read from it.", self.queue_name)
        elif self._is_paused and not is_paused:
            self.logger.info("Queue %r is not paused any more.", self.queue_name)
        self._is_paused = is_paused

    def _spend(self, entries: Iterable[Entry]) -> None:
        counts = [0] * self._lane_count
        for entry in entries:
            counts[entry.lane - 1] += 1
        self._credits.spend(counts)
