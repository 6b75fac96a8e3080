"""How a message is sent when the server cannot be reached: again, into the spool, or not at all.

Nothing that the server may have stored is sent again blindly: of a lost reply the caller is told.
Three kinds of messages may be sent again all the same: delayed ones, whose delivery has a name, as
long as they cannot have been forwarded yet; those with a unique key, as long as the server would
remember whose it was; and those of a broker with a spool, which would rather have a message twice
than lose it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dramatiq.errors import ConnectionClosed, ConnectionFailed
from dramatiq.message import Message
from dramatiq.worker import ConsumerThread
from tenacity import Retrying, retry_if_exception, stop_before_delay, wait_random

from . import clock
from .errors import EnqueueUnconfirmed, NotEnqueued, NotReplicated, SpoolFailed, SpoolFull
from .lanes import Lanes
from .options import ProducerOptions
from .outbox import Outbox, Outgoing, Receipt
from .spool import Spooled
from .uniqueness import REMEMBERED_MS

if TYPE_CHECKING:
    from .draining import Drain

#: Seconds between two attempts, at random in between: the producers of an outage return one by one.
#: No longer, because a thread that sleeps hears of a time limit or a shutdown only when it wakes.
PAUSE_SECONDS = (0.05, 0.35)

#: A delayed message whose reply was lost is sent again if it cannot be due for this long: a server
#: may carry out late what was sent before, and by then must not have forwarded what came after.
LEAST_DELAY_LEFT_MS = 60_000

#: A message with a unique key is not sent again when it is older: for one that has ended since, the
#: server remembers the key a little longer.
OLDEST_UNIQUE_MS = REMEMBERED_MS - 10_000
Attempt = Callable[[Sequence[Outgoing]], Receipt]


class Producer:
    """Sends through *outbox*; with a *drain*, into its spool while the server cannot be reached.

    Args:
        reach: Raises BrokerConnectionError while the server cannot be reached, and StreamsError
            when it never will do.
    """

    def __init__(
        self,
        outbox: Outbox,
        *,
        options: ProducerOptions,
        lanes: Lanes,
        reach: Callable[[], object],
        drain: Drain | None,
    ) -> None:
        self._outbox = outbox
        self._options = options
        self._lanes = lanes
        self._reach = reach
        self._drain = drain

    def send(self, outgoing: Outgoing) -> Receipt:
        """Send one message, or spool it.

        Raises:
            NotEnqueued: It is not stored, and not in the spool.
            EnqueueUnconfirmed: It may or may not be stored.
            NotReplicated: It is stored, but not on as many replicas as it should be.
            ServerOutOfMemory: It is not stored.
        """
        receipt = self._send([outgoing], self._attempt_one)
        if not receipt.holders:
            self.check_replicas(receipt, [outgoing.message])
        return receipt

    def send_many(self, chunk: Sequence[Outgoing]) -> Receipt:
        """Send *chunk* in one round trip, or spool it; the caller looks at the receipt.

        Raises:
            NotEnqueued: Nothing is stored, and nothing is in the spool.
            EnqueueUnconfirmed: Any of them may or may not be stored.
        """
        return self._send(chunk, self._attempt_many)

    def check_replicas(
        self,
        receipt: Receipt,
        enqueued: Sequence[Message[Any]],
        *,
        unsent: Sequence[Message[Any]] = (),
    ) -> None:
        """Make sure that enough replicas have the last of what was *enqueued*.

        Raises:
            NotReplicated: They have not.
        """
        wanted = self._options.wait_replicas
        if receipt.confirmed_by is not None and receipt.confirmed_by < wanted:
            raise NotReplicated(
                receipt.confirmed_by, wanted=wanted, enqueued=enqueued, unsent=unsent
            )

    def _send(self, chunk: Sequence[Outgoing], attempt: Attempt) -> Receipt:
        if self._drain is not None:
            return self._send_or_spool(chunk, attempt, self._drain)
        until_ms = clock.monotonic_ms() + self._options.enqueue_timeout_ms
        try:
            return attempt(chunk)
        except (ConnectionFailed, ConnectionClosed) as error:
            return self._send_again(chunk, attempt, error, until_ms=until_ms)

    def _attempt_one(self, chunk: Sequence[Outgoing]) -> Receipt:
        self._make_reachable()
        return self._outbox.send(chunk[0])

    def _attempt_many(self, chunk: Sequence[Outgoing]) -> Receipt:
        self._make_reachable()
        return _raised_if_unable(self._outbox.send_many(chunk))

    def _make_reachable(self) -> None:
        try:
            self._reach()
        except ConnectionClosed as error:  # of a question, and nothing was sent
            raise ConnectionFailed(str(error)) from error

    def _send_again(
        self,
        chunk: Sequence[Outgoing],
        attempt: Attempt,
        failure: Exception,
        *,
        until_ms: float,
    ) -> Receipt:
        """After a *failure*, make attempts until one succeeds, time is up, or it is not safe."""
        left_ms = until_ms - clock.monotonic_ms()
        is_unconfirmed = False

        def is_repeatable(error: BaseException) -> bool:
            nonlocal is_unconfirmed
            if isinstance(error, ConnectionClosed):
                is_unconfirmed = True
            if is_unconfirmed and not all(map(_is_known_again, chunk)):
                return False
            return isinstance(error, ConnectionFailed | ConnectionClosed)

        try:
            if not is_repeatable(failure) or left_ms <= 0 or _is_in_a_hurry():
                raise failure
            return _retrying(is_repeatable, left_ms)(attempt, chunk)
        except (ConnectionFailed, ConnectionClosed) as error:
            if is_unconfirmed:
                raise EnqueueUnconfirmed(error, unconfirmed=_messages(chunk)) from error
            raise NotEnqueued(error, unsent=_messages(chunk)) from error

    def _send_or_spool(self, chunk: Sequence[Outgoing], attempt: Attempt, drain: Drain) -> Receipt:
        drain.start()
        if drain.must_spool({outgoing.queue_name for outgoing in chunk}):
            self._spool(chunk, drain, cause="messages wait before it, or for the server")
            return Receipt([None] * len(chunk))
        try:
            receipt = attempt(chunk)
        except (ConnectionFailed, ConnectionClosed) as error:
            drain.begin_outage(error)
            self._spool(chunk, drain, cause=error)
            return Receipt([None] * len(chunk))
        return self._with_refused_spooled(receipt, chunk, drain)

    def _with_refused_spooled(
        self, receipt: Receipt, chunk: Sequence[Outgoing], drain: Drain
    ) -> Receipt:
        """Spool those of *chunk* that the server could not serve while it took the others."""
        refused = [isinstance(failure, ConnectionFailed) for failure in receipt.failures]
        unable = [
            outgoing for outgoing, is_refused in zip(chunk, refused, strict=True) if is_refused
        ]
        if not unable:
            return receipt
        self._spool(unable, drain, cause=receipt.first_failure)
        failures = [
            None if is_refused else failure
            for failure, is_refused in zip(receipt.failures, refused, strict=True)
        ]
        return Receipt(failures, receipt.confirmed_by, receipt.holders)

    def _spool(self, chunk: Sequence[Outgoing], drain: Drain, *, cause: object) -> None:
        messages = _messages(chunk)
        try:
            if drain.add([self._spooled(outgoing) for outgoing in chunk]):
                return
            text = f"{cause}; and the spool is full"
            failure: NotEnqueued = SpoolFull(text, unsent=messages)
        except SpoolFailed as error:
            text = f"{cause}; and {error}"
            failure = NotEnqueued(text, unsent=messages)
        if isinstance(cause, ConnectionClosed):
            raise EnqueueUnconfirmed(text, unconfirmed=messages)
        raise failure

    def _spooled(self, outgoing: Outgoing) -> Spooled:
        return Spooled(
            outgoing.queue_name,
            self._lanes.names[outgoing.lane - 1],
            outgoing.body,
            outgoing.delivery_id,
            None if outgoing.delay is None else clock.wall_ms() + outgoing.delay_left,
            reservation=outgoing.reservation,
        )


def _messages(chunk: Sequence[Outgoing]) -> list[Message[Any]]:
    return [outgoing.message for outgoing in chunk]


def _is_known_again(outgoing: Outgoing) -> bool:
    """Whether the server would see that it has this message already."""
    if outgoing.reservation is not None:
        return clock.monotonic_ms() - outgoing.prepared_at_ms < OLDEST_UNIQUE_MS
    return outgoing.delay is not None and outgoing.delay_left >= LEAST_DELAY_LEFT_MS


def _retrying(is_repeatable: Callable[[BaseException], bool], left_ms: float) -> Retrying:
    return Retrying(
        retry=retry_if_exception(is_repeatable),
        wait=wait_random(*PAUSE_SECONDS),
        stop=stop_before_delay(left_ms / 1000),
        reraise=True,
    )


def _is_in_a_hurry() -> bool:
    """Whether others depend on this thread: the actors of an event loop, a worker's messages."""
    if isinstance(threading.current_thread(), ConsumerThread):
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _raised_if_unable(receipt: Receipt) -> Receipt:
    """A server that is unable to serve refuses all: as if it had not been reached."""
    failure = receipt.first_failure
    if failure and all(isinstance(each, ConnectionFailed) for each in receipt.failures):
        raise failure
    return receipt
