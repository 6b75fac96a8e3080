"""How messages get in: one at a time, or many in one round trip."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dramatiq.common import q_name
from dramatiq.message import Message

from .delays import Delays
from .executor import Command, Executor
from .messages import RetryHandOver
from .queues import Queues


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message on its way: as middleware saw it, and as it is stored."""

    message: Message[Any]
    lane: int
    body: bytes
    #: Milliseconds; None for a message that is not delayed.
    delay: int | None

    @property
    def queue_name(self) -> str:
        """The canonical name of its queue."""
        return q_name(self.message.queue_name)

    def as_retry(self) -> RetryHandOver:
        """The same, to replace the delivery that is being retried."""
        return RetryHandOver(uuid.uuid4().hex, self.lane, self.body, self.delay)


class Outbox:
    """Sends what is `Outgoing`."""

    def __init__(self, executor: Executor, *, queues: Queues, delays: Delays) -> None:
        self._executor = executor
        self._queues = queues
        self._delays = delays

    def send(self, outgoing: Outgoing) -> None:
        """Store one message.

        Raises:
            ConnectionFailed: It is not stored.
            ConnectionClosed: It may or may not be stored.
            ServerOutOfMemory: It is not stored.
        """
        if outgoing.delay is None:
            self._queues.enqueue(outgoing.queue_name, outgoing.lane, outgoing.body)
        else:
            self._delays.add(
                outgoing.queue_name,
                outgoing.lane,
                outgoing.body,
                delivery_id=uuid.uuid4().hex,
                delay_ms=outgoing.delay,
            )

    def send_many(self, chunk: Sequence[Outgoing]) -> list[Exception | None]:
        """Store *chunk* in one round trip, in order.

        Returns:
            For each message why the server refused it, or None.

        Raises:
            ConnectionFailed: Nothing is stored.
            ConnectionClosed: Any of them may or may not be stored.
        """
        commands = [self._command(outgoing) for outgoing in chunk]
        replies = self._executor.execute_many([self._delays.loading_command(), *commands])
        return [reply if isinstance(reply, Exception) else None for reply in replies[1:]]

    def _command(self, outgoing: Outgoing) -> Command:
        if outgoing.delay is None:
            return self._queues.enqueue_command(outgoing.queue_name, outgoing.lane, outgoing.body)
        return self._delays.add_command(
            outgoing.queue_name,
            outgoing.lane,
            outgoing.body,
            delivery_id=uuid.uuid4().hex,
            delay_ms=outgoing.delay,
        )
