"""dramatiq's Consumer: what to read, when, and how much."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from dramatiq.broker import Consumer, MessageProxy
from dramatiq.errors import BrokerConnectionError, ConnectionClosed, DecodeError
from dramatiq.logging import get_logger

from . import clock
from .errors import GroupMissing
from .events import Event
from .executor import Executor
from .isolation import Isolation
from .lanes import Credits, Lanes
from .messages import DeliveredMessage, Entry, decode
from .queues import Queues, Reading
from .settlement import Settlement

#: Milliseconds to wait for a delayed message that is due and that the server cannot forward.
STALLED_MS = 100.0

#: Milliseconds to sleep for when nothing is delayed: another consumer may know better.
NOTHING_DUE_MS = 60_000.0

#: Milliseconds after which a paused queue is looked at again.
PAUSED_MS = 250.0

#: After this many blocking reads in a row that brought nothing, the next read is a full one.
QUIET_ROUNDS = 5

#: Seconds between two looks of a consumer that has nothing to do any more but to be closed.
RETREAT_SECONDS = 0.05


class _Forwarding:
    """Forwards delayed messages the moment they are due, while the consumer is blocked.

    An `Alarm` on a second connection: what it forwards wakes a blocked consumer, this or another.
    """

    def __init__(self, queue_name: str, queues: Queues) -> None:
        self._queue_name = queue_name
        self._queues = queues
        self._due_at_ms: float | None = None

    def expect(self, reading: Reading) -> None:
        """Note when the next message is due, as *reading* has found."""
        if reading.next_due_ms is None:
            self._due_at_ms = None
            return
        is_stalled = reading.next_due_ms == 0 and reading.forwarded == 0
        wait_ms = STALLED_MS if is_stalled else reading.next_due_ms
        self._due_at_ms = clock.monotonic_ms() + wait_ms

    def seconds_left(self) -> float:
        """Seconds until the next message is due."""
        if self._due_at_ms is None:
            return NOTHING_DUE_MS / 1000
        return max(self._due_at_ms - clock.monotonic_ms(), 0.0) / 1000

    def ring(self) -> None:
        """Forward what is due now."""
        self.expect(self._queues.read(self._queue_name, 0, shares=(), acks=()))


class StreamsConsumer(Consumer):
    """Reads one queue for one consumer thread.

    `__next__` and `close` belong to that thread; `ack`, `nack` and `requeue` may be called from
    any, also for messages of earlier consumers and after `close`.
    """

    def __init__(
        self,
        queue_name: str,
        *,
        prefetch: int,
        timeout_ms: int,
        lease_ms: int,
        lanes: Lanes,
        connection: Executor,
        queues: Queues,
        forwarder: Queues,
        settlement: Settlement,
        isolation: Isolation,
        retreat: threading.Event,
        register: Callable[[], None],
    ) -> None:
        self.logger = get_logger(__name__, type(self))
        self.queue_name = queue_name
        self.prefetch = prefetch
        self.timeout_ms = timeout_ms
        self._lease_ms = lease_ms
        self._lane_count = len(lanes.names)
        self._credits = Credits(lanes)
        self._connection = connection
        self._queues = queues
        self._settlement = settlement
        self._isolation = isolation
        self._retreat = retreat
        self._register = register
        self._holdings = settlement.holdings
        self._buffer: deque[Entry] = deque()
        self._last_ids: list[str] = []
        self._forwarding = _Forwarding(queue_name, forwarder)
        self._reconcile_at_ms = 0.0
        self._quiet_rounds = 0
        self._is_ready = False
        self._is_paused = False
        self._is_closed = False

    def __next__(self) -> MessageProxy | None:
        """Hand out the next message, or None when none came within the timeout.

        Raises:
            BrokerConnectionError: The server cannot be reached or cannot serve; nothing is lost.
        """
        if self._is_closed:
            raise ConnectionClosed("The consumer is closed.")
        deadline_ms = clock.monotonic_ms() + self.timeout_ms
        left_ms: float = self.timeout_ms
        while (message := self._next_buffered(left_ms)) is None and left_ms > 0:
            if self._retreat.is_set():
                self._withdraw()
                return None
            if not self._buffer:
                with self._holdings.carrying():
                    self._fetch(left_ms)
            left_ms = deadline_ms - clock.monotonic_ms()
        return message

    def ack(self, message: MessageProxy) -> None:
        """Remove *message* for good; has no effect when it is no longer held.

        Raises:
            BrokerConnectionError: Only for a message whose retry could not replace it yet.
        """
        if isinstance(message, DeliveredMessage):
            self._settle(message, self._settlement.ack)

    def nack(self, message: MessageProxy) -> None:
        """Move *message* to the dead letters; has no effect when it is no longer held.

        Raises:
            BrokerConnectionError: It may not have been moved yet; call again.
        """
        if isinstance(message, DeliveredMessage):
            self._settle(message, self._settlement.nack)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """Give *messages* back to other workers at once; none of them counts as delivered.

        Raises:
            BrokerConnectionError: They are not given back yet; their leases will expire.
        """
        self._settlement.requeue(messages)

    def close(self) -> None:
        """Give back what was fetched but not handed out, send the acks, and disconnect.

        Never raises: the Worker would lose the thread that calls it. What cannot be done now is
        done when the leases expire.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._holdings.disown(self)
        buffered = list(self._buffer)
        self._buffer.clear()
        try:
            self._settlement.send_acks()
            self._settlement.release(buffered)
        except Exception as error:
            self.logger.warning(
                "Queue %r was closed without the server; leases will expire: %s",
                self.queue_name,
                error,
            )
        self._connection.close()

    def _settle(
        self, message: DeliveredMessage, settle: Callable[[DeliveredMessage], None]
    ) -> None:
        try:
            settle(message)
        except BrokerConnectionError as error:
            # The Worker would try again until the server is back, and its process never end.
            if not self._retreat.is_set():
                raise
            self.logger.warning(
                "Message %r of queue %r could not be settled, and its worker stops: it will be"
                " delivered again. %s",
                message.message_id,
                self.queue_name,
                error,
            )

    def _next_buffered(self, left_ms: float) -> DeliveredMessage | None:
        """The next message that may be handed out within *left_ms*; the others stay buffered."""
        while self._buffer:
            entry = self._buffer[0]
            if not entry.is_lost and not self._may_start(entry, left_ms):
                return None
            self._buffer.popleft()
            if entry.is_lost:
                self._holdings.drop([entry])
                continue
            try:
                message = decode(entry, self.queue_name)
            except DecodeError as error:
                self._reject(entry, error)
                continue
            entry.body = b""
            return message
        return None

    def _may_start(self, entry: Entry, left_ms: float) -> bool:
        """Whether *entry* may be handed out within *left_ms*; it may turn out to be lost."""
        if self._retreat.is_set():
            return False
        if not self._isolation.admit(entry, timeout_ms=0):
            # Nobody reads meanwhile, and what it waits for may be an ack that is still to be sent.
            self._settlement.send_acks()
            if not self._isolation.admit(entry, timeout_ms=left_ms):
                return False
        if entry.is_last and not entry.has_begun:
            self._settlement.begin(entry)
        return True

    def _withdraw(self) -> None:
        """The worker stops: what a blocked read has brought meanwhile is for others."""
        buffered = list(self._buffer)
        self._buffer.clear()
        self._settlement.send_acks()
        self._settlement.release(buffered)
        time.sleep(RETREAT_SECONDS)

    def _reject(self, entry: Entry, error: DecodeError) -> None:
        try:
            self._settlement.reject_undecodable(entry, error)
        except BaseException:
            self._buffer.appendleft(entry)  # `close` gives it back.
            raise

    def _fetch(self, left_ms: float) -> None:
        """Get something into the buffer, or wait up to *left_ms* for a reason to try again."""
        try:
            if not self._is_ready:
                self._queues.ensure_groups(self.queue_name)
                self._register()
                self._is_ready = True
            self._reconcile()
            budget = self._holdings.room(self.prefetch, owner=self)
            if budget <= 0:
                self._wait_for_room(left_ms)
            elif budget < self._lane_count:
                if not self._read(budget):
                    self._wait(left_ms)
            elif self._is_quiet() or not self._read(budget):
                self._block(left_ms)
        except GroupMissing as error:
            self._create_groups(error)

    def _is_quiet(self) -> bool:
        """Whether the last round brought nothing: then the next may block at once.

        Whatever changes wakes a blocked consumer. Should that one die of it, the others notice
        when they read again after a few rounds.
        """
        return self._quiet_rounds % QUIET_ROUNDS > 0 and not self._holdings.has_acks

    def _wait_for_room(self, left_ms: float) -> None:
        """All that may be held is held: wait for an ack, but go on forwarding what is due."""
        wait_ms = min(left_ms, self._forwarding.seconds_left() * 1000)
        has_room = self._holdings.wait_for_room(self.prefetch, owner=self, timeout_ms=wait_ms)
        if not has_room and (wait_ms < left_ms or self._holdings.has_acks):
            self._read(0)

    def _read(self, budget: int) -> bool:
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
                    watch=0 < budget < self._lane_count,
                )
                self._hold(reading.entries, begun_ms)
        except BaseException:
            self._holdings.put_back(acks)
            raise
        self._settlement.confirm(acks, reading.refused)
        self._note_pause(reading.is_paused)
        self._buffer.extend(reading.entries)
        self._spend(reading.entries)
        self._forwarding.expect(reading)
        self._last_ids = reading.last_ids
        return bool(reading.entries)

    def _wait(self, wait_ms: float) -> None:
        """Wait for something to read without taking it: the budget may not be enough for it."""
        if not self._last_ids or not self._holdings.pause_carrying():
            return
        try:
            self._queues.wait(
                self.queue_name,
                math.ceil(wait_ms),
                last_ids=self._last_ids,
                alarm=self._forwarding,
            )
        finally:
            self._holdings.resume_carrying()

    def _block(self, wait_ms: float) -> None:
        """Wait for something to read and take it, an entry of each lane at most."""
        if not self._holdings.pause_carrying():
            return
        begun_ms = clock.monotonic_ms()
        try:
            if self._is_paused:
                time.sleep(min(wait_ms, PAUSED_MS) / 1000)
                return
            with self._holdings.reading():
                blocked = self._queues.read_blocking(
                    self.queue_name, math.ceil(wait_ms), alarm=self._forwarding
                )
                self._hold(blocked.entries, begun_ms, wait_ms)
        finally:
            self._holdings.resume_carrying()
        for wake in blocked.wakes:
            self._holdings.acknowledge(wake)
        self._quiet_rounds = 0 if blocked.entries or blocked.wakes else self._quiet_rounds + 1
        self._buffer.extend(blocked.entries)

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
