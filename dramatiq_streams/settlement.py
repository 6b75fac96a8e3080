"""How a delivery ends: acknowledged, dead-lettered, replaced by its retry, or given back.

One `Settlement` serves a queue for the life of the process, whichever consumer delivered.
Refusals are expected: an entry whose lease was lost belongs to somebody else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dramatiq.broker import MessageProxy
from dramatiq.errors import ActorNotFound, BrokerConnectionError, ConnectionFailed
from dramatiq.logging import get_logger

from .dead_letters import DeadLetters, Reason
from .delays import Delays
from .errors import DeliveredTooOften, DuplicateMessage, IdempotencyConflict, StreamsError
from .events import Event, Events
from .holdings import Holdings
from .messages import DeliveredMessage, Entry, RetryHandOver, encode
from .pacing import Crew
from .queues import Queues


class Settlement:
    """Settles the deliveries of one queue."""

    def __init__(
        self,
        queue_name: str,
        *,
        queues: Queues,
        delays: Delays,
        dead_letters: DeadLetters,
        on_settled: Callable[[Entry], None] | None = None,
        crew: Crew | None = None,
        events: Events | None = None,
    ) -> None:
        self.logger = get_logger(__name__, type(self))
        self.holdings = Holdings(on_settled, crew=crew)
        self.events = events or Events()
        self._queue_name = queue_name
        self._queues = queues
        self._delays = delays
        self._dead_letters = dead_letters
        self._sending = threading.Lock()

    def ack(self, message: DeliveredMessage) -> None:
        """Remove *message* for good, at the latest with the next read.

        Raises:
            BrokerConnectionError: Its retry could not replace it yet, or what it owes is not on
                the server yet; call again.
        """
        entry = message.entry
        if entry.is_settled:
            return
        if message.owed is not None:
            message.owed()
            message.owed = None
        if message.hand_over is not None:
            with self._abandoning(entry):
                self.hand_over(message, message.hand_over)
        elif entry.is_lost:
            self._give_up(entry, "acknowledged")
        elif message.must_stay or (message.exception is not None and message.is_being_retried):
            self._abandon(entry, "what it was to cause could not be enqueued")
        elif self.holdings.acknowledge(entry):
            self.send_acks()

    def send_acks(self) -> None:
        """Send the acks that have piled up; what cannot be sent now stays for the next read."""
        while self.holdings.has_acks:
            with self._sending:
                acks = self.holdings.take_acks()
                if not acks:
                    return
                try:
                    refused = self._queues.acknowledge(self._queue_name, acks)
                except BrokerConnectionError as error:
                    self.holdings.put_back(acks)
                    # The next read carries them, and tells of the outage if it is one.
                    self.logger.debug("%d acks will be sent later: %s", len(acks), error)
                    return
                except BaseException:
                    self.holdings.put_back(acks)
                    raise
                self.confirm(acks, refused)

    def confirm(self, acks: Iterable[Entry], refused: Iterable[Entry]) -> None:
        """Note that *acks* have reached the server, and which of them it *refused*."""
        self.holdings.confirm(acks)
        for entry in refused:
            if not entry.is_in_doubt:
                self._give_up(entry, "acknowledged")

    def nack(self, message: DeliveredMessage) -> None:
        """Move *message* to the dead letters, its options as middleware left them.

        Raises:
            BrokerConnectionError: It may not have been moved yet; call again.
        """
        entry = message.entry
        if entry.is_settled:
            return
        if entry.is_lost:
            self._give_up(entry, "rejected")
            return
        exception = message.exception
        self._reject(
            entry,
            message=message.message,
            body=self._encoded(message),
            reason=_reason_of(exception),
            error="" if exception is None else _described(exception),
        )

    def reject_undecodable(self, entry: Entry, error: Exception) -> None:
        """Move an entry that holds no message to the dead letters, as it is."""
        self.logger.error(
            "Entry %s holds no message and is dead-lettered: %s", entry.entry_id, error
        )
        self._reject(
            entry, message=None, body=None, reason=Reason.UNDECODABLE, error=_explained(error)
        )

    def hand_over(self, message: DeliveredMessage, retry: RetryHandOver) -> bool:
        """Replace *message* by its *retry* in one step.

        Returns:
            False when the delivery was lost before, so that its retry is somebody else's business.

        Raises:
            BrokerConnectionError: It may not have happened yet; `ack` tries again.
        """
        entry = message.entry
        message.hand_over = retry
        was_in_doubt = entry.is_in_doubt
        entry.is_in_doubt = True
        is_done = self._delays.hand_over(self._queue_name, entry, retry)
        entry.is_settled = True
        message.hand_over = None
        self.holdings.drop([entry])
        if not is_done and not was_in_doubt:
            self._give_up(entry, "retried")
        return is_done or was_in_doubt

    def begin(self, entry: Entry) -> None:
        """Have the last delivery of *entry* counted; it is lost if it must not start.

        Raises:
            BrokerConnectionError: It may have been counted, and must not start.
        """
        # If it kills this process, what was done before shall not be done again.
        self.send_acks()
        if not self._queues.begin(self._queue_name, entry):
            self.lose([entry])

    def release(self, entries: Iterable[Entry]) -> None:
        """Give *entries*, none of them started, back to other workers.

        Raises:
            BrokerConnectionError: They are not given back yet; their leases will expire.
        """
        ours = [entry for entry in entries if not entry.is_settled]
        for entry in ours:
            entry.is_settled = True
        self._release(ours)

    def give_back_excess(self, prefetch: int, *, owner: object) -> None:
        """Give back what has not started and is held beyond the limit, see `Pace`.

        Raises:
            BrokerConnectionError: They are not given back yet; the next reconciliation does it.
        """
        excess = self.holdings.withdraw(prefetch, owner=owner)
        if excess:
            self.logger.debug(
                "%d messages of queue %r are given back: those before them take long.",
                len(excess),
                self._queue_name,
            )
            self._release(excess)

    def _release(self, entries: Sequence[Entry]) -> None:
        free = [entry for entry in entries if not entry.is_lost]
        self.holdings.drop(entries, are_done=False)
        if free:
            self._queues.release(self._queue_name, free)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """Give *messages* back to other workers at once, at their old place.

        Raises:
            BrokerConnectionError: As `release`; also when the server refuses. Any other error
                would end the Worker's thread, or its stop before all queues are given back.
        """
        try:
            self.release([m.entry for m in messages if isinstance(m, DeliveredMessage)])
        except BrokerConnectionError:
            raise
        except StreamsError as error:
            raise ConnectionFailed(str(error)) from error

    def lose(self, entries: Iterable[Entry]) -> None:
        """Note that others may have *entries* now: not to be started, not to be acknowledged."""
        for entry in entries:
            if not entry.is_settled:
                entry.is_lost = True
                self.events.tell(Event.LEASE_LOST, self._queue_name)
                self.logger.warning(
                    "The lease on entry %s of queue %r was lost; another worker may run it.",
                    entry.entry_id,
                    self._queue_name,
                )

    def _reject(self, entry: Entry, **letter: Any) -> None:
        was_in_doubt = entry.is_in_doubt
        entry.is_in_doubt = True
        with self._abandoning(entry):
            is_done = self._dead_letters.reject(self._queue_name, entry, **letter)
            entry.is_settled = True
            self.holdings.drop([entry])
            if not is_done and not was_in_doubt:
                self._give_up(entry, "rejected")

    @contextmanager
    def _abandoning(self, entry: Entry) -> Iterator[None]:
        """Let *entry* go when the server refuses to settle it: asking again would not help."""
        try:
            yield
        except BrokerConnectionError:
            raise
        except StreamsError as error:
            self._abandon(entry, str(error))

    def _abandon(self, entry: Entry, why: str) -> None:
        entry.is_settled = True
        self.holdings.abandon(entry)
        self.logger.error(
            "Entry %s of queue %r stays as it was, and is delivered again when its lease has"
            " expired: %s",
            entry.entry_id,
            self._queue_name,
            why,
        )

    def _give_up(self, entry: Entry, deed: str) -> None:
        entry.is_settled = True
        self.events.tell(Event.SETTLED_TOO_LATE, self._queue_name)
        self.holdings.drop([entry])
        self.logger.warning(
            "Entry %s of queue %r was %s after its lease was lost or the queue was flushed;"
            " this has no effect.",
            entry.entry_id,
            self._queue_name,
            deed,
        )

    def _encoded(self, message: DeliveredMessage) -> bytes | None:
        try:
            return encode(message.message)
        except Exception as error:
            # Middleware put something into the options that the encoder cannot write.
            self.logger.warning(
                "Message %r is dead-lettered as it was delivered: %s", message.message_id, error
            )
            return None


def _reason_of(exception: BaseException | None) -> Reason:
    for kind, reason in _REASONS:
        if isinstance(exception, kind):
            return reason
    return Reason.FAILED


_REASONS = (
    (ActorNotFound, Reason.ACTOR_NOT_FOUND),
    (DeliveredTooOften, Reason.MAX_DELIVERIES),
    (DuplicateMessage, Reason.DUPLICATE),
    (IdempotencyConflict, Reason.IDEMPOTENCY_CONFLICT),
)


def _described(exception: BaseException) -> str:
    try:
        return f"{type(exception).__name__}: {exception}"
    except Exception:  # its `__str__` is the user's code
        return f"{type(exception).__name__}: (it has no text)"


def _explained(error: Exception) -> str:
    cause = getattr(error, "error", None)
    return f"{error} {type(cause).__name__}: {cause}" if cause is not None else str(error)
