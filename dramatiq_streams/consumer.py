"""dramatiq's Consumer: hands out what is fetched, in order, and settles it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from dramatiq.broker import Consumer, MessageProxy
from dramatiq.errors import BrokerConnectionError, ConnectionClosed, DecodeError
from dramatiq.logging import get_logger

from . import clock
from .executor import Executor
from .fetching import Fetcher
from .isolation import Isolation
from .messages import DeliveredMessage, Entry, decode
from .outages import Outages, Ride
from .settlement import Settlement

#: Seconds between two looks of a consumer that has nothing to do any more but to be closed.
RETREAT_SECONDS = 0.05

#: Milliseconds between two looks of one that may fetch nothing; the end of that wakes it.
STAND_BY_MS = 100.0


class StreamsConsumer(Consumer):
    """Reads one queue for one consumer thread.

    `__next__` and `close` belong to that thread; `ack`, `nack` and `requeue` may be called from
    any, also for messages of earlier consumers and after `close`.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        timeout_ms: int,
        connection: Executor,
        settlement: Settlement,
        isolation: Isolation,
        retreat: threading.Event,
        outages: Outages,
    ) -> None:
        self.logger = get_logger(__name__, type(self))
        self.queue_name = fetcher.queue_name
        self.timeout_ms = timeout_ms
        self._fetcher = fetcher
        self._connection = connection
        self._settlement = settlement
        self._holdings = settlement.holdings
        self._isolation = isolation
        self._retreat = retreat
        self._outages = outages
        self._ride = outages.ride(f"read queue {self.queue_name!r}", retreat)
        self._buffer: deque[Entry] = deque()
        self._is_closed = False

    def __next__(self) -> MessageProxy | None:
        """Hand out the next message, or None when none came within the timeout.

        Under a Worker an outage is ridden out: what is fetched is handed out, then None.

        Raises:
            BrokerConnectionError: The server cannot be reached or cannot serve; nothing is lost.
        """
        if self._is_closed:
            raise ConnectionClosed("The consumer is closed.")
        try:
            return self._next()
        except BrokerConnectionError as error:
            self._ride.endure(error)
            self._fetcher.begin_anew()
            return None

    def _next(self) -> DeliveredMessage | None:
        deadline_ms = clock.monotonic_ms() + self.timeout_ms
        left_ms: float = self.timeout_ms
        while (message := self._next_buffered()) is None and left_ms > 0:
            if self._retreat.is_set():
                self._withdraw()
                return None
            if (suspect := self._isolation.suspect) is not None:
                self._stand_by(suspect, left_ms)
            elif not self._buffer:
                self._buffer.extend(self._fetcher.fetch(left_ms))
                self._ride.succeed()
            left_ms = deadline_ms - clock.monotonic_ms()
        self._holdings.note_attention()  # Also when what is fetched has to wait.
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
        self._fetcher.disown()
        try:
            if self._outages.is_on:  # A server that hangs would take its time once more.
                raise ConnectionClosed("It cannot be reached.")
            self._give_back_buffered()
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
        ride: Ride | None = None
        while True:
            try:
                settle(message)
            except BrokerConnectionError as error:
                if self._retreat.is_set():
                    self._leave_behind(message, error)
                    return
                ride = ride or self._outages.ride(
                    f"settle messages of queue {self.queue_name!r}", self._retreat
                )
                ride.endure(error)
            else:
                if ride is not None:
                    ride.succeed()
                return

    def _leave_behind(self, message: DeliveredMessage, error: BrokerConnectionError) -> None:
        """The worker stops, and would not for as long as the server is away."""
        self.logger.warning(
            "Message %r of queue %r could not be settled, and its worker stops: it will be"
            " delivered again. %s",
            message.message_id,
            self.queue_name,
            error,
        )

    def _next_buffered(self) -> DeliveredMessage | None:
        """The next message that may be handed out now; the others stay buffered."""
        while self._buffer:
            entry = self._buffer[0]
            if not entry.is_lost and not self._may_start(entry):
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

    def _may_start(self, entry: Entry) -> bool:
        """Whether *entry* may be handed out now; it may turn out to be lost."""
        if self._retreat.is_set() or not self._isolation.admit(entry):
            return False
        if entry.is_last and not entry.has_begun:
            self._settlement.begin(entry)
        return True

    def _stand_by(self, suspect: Entry, left_ms: float) -> None:
        """Nothing but *suspect* may start in this process: what is buffered is for others.

        Some acks may still have to be sent: *suspect* waits for them, or its end is among them.
        """
        waiting = [entry for entry in self._buffer if entry is not suspect]
        is_ours = len(waiting) < len(self._buffer)
        if waiting:
            self._buffer = deque([suspect] if is_ours else ())
            self._settlement.release(waiting)
        if self._fetcher.attend():
            self._ride.succeed()
        if not self._holdings.has_acks:
            self._isolation.wait(suspect, is_ours=is_ours, timeout_ms=min(left_ms, STAND_BY_MS))

    def _withdraw(self) -> None:
        """The worker stops: what a blocked read has brought meanwhile is for others."""
        if not self._outages.is_silent:
            self._give_back_buffered()
        time.sleep(RETREAT_SECONDS)

    def _give_back_buffered(self) -> None:
        buffered = list(self._buffer)
        self._buffer.clear()
        self._settlement.send_acks()
        self._settlement.release(buffered)

    def _reject(self, entry: Entry, error: DecodeError) -> None:
        try:
            self._settlement.reject_undecodable(entry, error)
        except BaseException:
            self._buffer.appendleft(entry)  # `close` gives it back.
            raise
