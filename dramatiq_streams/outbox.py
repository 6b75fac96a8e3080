"""How messages get in: one at a time, or many in one round trip; out of a spool, in order."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dramatiq.common import q_name
from dramatiq.message import Message

from . import clock
from .delays import Delays
from .errors import CommandFailed
from .executor import Command, Executor
from .messages import RetryHandOver
from .queues import Queues
from .reservations import Reservations
from .spool import Spooled
from .uniqueness import Reservation

_OUT_OF_ORDER = CommandFailed("What the server knew of the spool has vanished; it is sent again.")


@dataclass(slots=True, eq=False)
class Outgoing:
    """A message on its way: as middleware saw it, and as it is stored.

    Nothing changes it: `frozen` would only make each take three times as long to make.
    """

    message: Message[Any]
    lane: int
    body: bytes
    #: Milliseconds from `prepared_at_ms` on; None for a message that is not delayed.
    delay: int | None
    #: The unique key that it is to have, if any.
    reservation: Reservation | None = None
    #: The canonical name of its queue.
    queue_name: str = ""
    #: The same in each attempt, so that a delayed message is there once however often it is sent.
    #: Only what is delayed or unique needs one.
    delivery_id: str = ""
    prepared_at_ms: float = field(default_factory=clock.monotonic_ms)

    @classmethod
    def of(
        cls,
        message: Message[Any],
        lane: int,
        body: bytes,
        *,
        delay: int | None = None,
        reservation: Reservation | None = None,
        is_retry: bool = False,
    ) -> Outgoing:
        """A new one, with an id if it needs one."""
        is_plain = delay is None and reservation is None and not is_retry
        delivery_id = "" if is_plain else uuid.uuid4().hex
        queue_name = q_name(message.queue_name)
        return cls(message, lane, body, delay, reservation, queue_name, delivery_id)

    @property
    def delay_left(self) -> int:
        """Milliseconds from now on: attempts that take long do not move the instant."""
        passed = int(clock.monotonic_ms() - self.prepared_at_ms)
        return max((self.delay or 0) - passed, 0)

    @property
    def delay_ms(self) -> int | None:
        """The same, but None for a message that is not delayed."""
        return None if self.delay is None else self.delay_left

    def as_retry(self) -> RetryHandOver:
        """The same, to replace the delivery that is being retried."""
        return RetryHandOver(self.delivery_id, self.lane, self.body, self.delay)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of messages that were sent together."""

    #: For each why the server refused it, or None.
    failures: Sequence[Exception | None]
    #: How many replicas have all of them; None when nobody waited for replicas.
    confirmed_by: int | None = None
    #: Which message has the unique key of one that was therefore not enqueued, by its position.
    holders: Mapping[int, str] = field(default_factory=dict)

    @property
    def first_failure(self) -> Exception | None:
        """Why the first one of those that were refused was refused."""
        return next(filter(None, self.failures), None)


#: Of one message, the only one that was sent.
_STORED = Receipt((None,))


class Outbox:
    """Sends what is `Outgoing`.

    Args:
        introduce: Tells operators of a queue.
        wait_replicas: How many replicas are waited for; zero for none.
        wait_timeout_ms: How long, at most.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        queues: Queues,
        delays: Delays,
        reservations: Reservations,
        introduce: Callable[[str], None],
        wait_replicas: int = 0,
        wait_timeout_ms: int = 0,
    ) -> None:
        self._executor = executor
        self._introduce = introduce
        self._queues = queues
        self._delays = delays
        self._reservations = reservations
        # It counts the replicas that have what its own connection has written before.
        self._wait_replicas = wait_replicas
        self._waiting = [("WAIT", wait_replicas, wait_timeout_ms)] if wait_replicas else []

    def send(self, outgoing: Outgoing) -> Receipt:
        """Store one message.

        Raises:
            ConnectionFailed: It is not stored.
            ConnectionClosed: It may or may not be stored.
            ServerOutOfMemory: It is not stored.
        """
        if self._waiting:
            receipt = self.send_many([outgoing])
            if receipt.first_failure:
                raise receipt.first_failure
            return receipt
        if outgoing.reservation is not None:
            return self._send_unique(outgoing, outgoing.reservation)
        if outgoing.delay is None:
            self._queues.enqueue(outgoing.queue_name, outgoing.lane, outgoing.body)
        else:
            self._delays.add(
                outgoing.queue_name,
                outgoing.lane,
                outgoing.body,
                delivery_id=outgoing.delivery_id,
                delay_ms=outgoing.delay_left,
            )
        self._introduce(outgoing.queue_name)
        return _STORED

    def send_many(self, chunk: Sequence[Outgoing]) -> Receipt:
        """Store *chunk* in one round trip, in order.

        Raises:
            ConnectionFailed: Nothing is stored.
            ConnectionClosed: Any of them may or may not be stored.
        """
        commands = [self._command(outgoing) for outgoing in chunk]
        loading = [self._delays.loading_command()]
        has_unique = any(outgoing.reservation for outgoing in chunk)
        if has_unique:
            loading.append(self._reservations.loading_command())
        replies, confirmed_by = self._store(loading, commands)
        for queue_name in {outgoing.queue_name for outgoing in chunk}:
            self._introduce(queue_name)
        failures = [reply if isinstance(reply, Exception) else None for reply in replies]
        return Receipt(failures, confirmed_by, _holders(chunk, replies) if has_unique else {})

    def take_in(self, spool: str, messages: Sequence[Spooled]) -> Receipt:
        """Store messages of one queue out of a spool, in order; each once, however often it comes.

        Returns:
            A receipt whose failures begin with the first message that is not stored, or not on
            enough replicas.

        Raises:
            ConnectionFailed: Nothing is stored.
            ConnectionClosed: Any of them may or may not be stored; send them again.
        """
        previous = [0, *(message.row for message in messages)]
        commands = [
            self._queues.take_in_command(message, spool=spool, previous=before)
            for message, before in zip(messages, previous, strict=False)
        ]
        replies, confirmed_by = self._store([self._queues.take_in_loading_command()], commands)
        self._introduce(messages[0].queue_name)
        failures: list[Exception | None] = []
        failure: Exception | None = None
        if confirmed_by is not None and confirmed_by < self._wait_replicas:
            # Sent again they change nothing, and the server waits again.
            failure = CommandFailed(
                f"{confirmed_by} replicas instead of {self._wait_replicas} have confirmed it."
            )
        for reply in replies:
            if failure is None and (isinstance(reply, Exception) or reply < 0):
                failure = reply if isinstance(reply, Exception) else _OUT_OF_ORDER
            failures.append(failure)
        return Receipt(failures, confirmed_by)

    def _send_unique(self, outgoing: Outgoing, reservation: Reservation) -> Receipt:
        holder = self._reservations.enqueue(
            outgoing.queue_name,
            outgoing.lane,
            outgoing.body,
            reservation=reservation,
            delivery_id=outgoing.delivery_id,
            delay_ms=outgoing.delay_ms,
        )
        self._introduce(outgoing.queue_name)
        return Receipt([None], holders=_holders([outgoing], [holder]))

    def _store(
        self, loading: Sequence[Command], commands: Sequence[Command]
    ) -> tuple[list[Any], int | None]:
        sent = [*loading, *commands, *self._waiting]
        replies = self._executor.execute_many(sent)[len(loading) :]
        if not self._waiting:
            return replies, None
        confirmed_by = replies.pop()
        # A server that refuses to wait has confirmed nothing.
        return replies, 0 if isinstance(confirmed_by, Exception) else confirmed_by

    def _command(self, outgoing: Outgoing) -> Command:
        if outgoing.reservation is not None:
            return self._reservations.enqueue_command(
                outgoing.queue_name,
                outgoing.lane,
                outgoing.body,
                reservation=outgoing.reservation,
                delivery_id=outgoing.delivery_id,
                delay_ms=outgoing.delay_ms,
            )
        if outgoing.delay is None:
            return self._queues.enqueue_command(outgoing.queue_name, outgoing.lane, outgoing.body)
        return self._delays.add_command(
            outgoing.queue_name,
            outgoing.lane,
            outgoing.body,
            delivery_id=outgoing.delivery_id,
            delay_ms=outgoing.delay_left,
        )


def _holders(chunk: Sequence[Outgoing], replies: Sequence[Any]) -> dict[int, str]:
    """Of those in *chunk* that another message has kept out, the other one's id.

    A message that was sent before, and still has its key, has been enqueued: it is not kept out.
    """
    holders = {}
    for position, (outgoing, reply) in enumerate(zip(chunk, replies, strict=True)):
        if outgoing.reservation is not None and isinstance(reply, bytes) and reply:
            holder = reply.decode()
            if holder != outgoing.message.message_id:
                holders[position] = holder
    return holders
