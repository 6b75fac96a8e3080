"""Entries as they come from the server, and the messages that dramatiq's Worker gets from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dramatiq.broker import MessageProxy
from dramatiq.common import q_name
from dramatiq.encoder import JSONEncoder
from dramatiq.message import Message, get_encoder
from dramatiq.middleware import MiddlewareError

from . import clock
from .bodies import parsed

#: What dramatiq's JSONEncoder makes anew for each message.
_JSON = json.JSONEncoder(separators=(",", ":"))


@dataclass(slots=True, eq=False)
class Entry:
    """One delivery of one stream entry to this process.

    Another delivery of the same stream entry has another `deliveries`: together with the consumer
    it is the fence by which the server tells a holder from one that lost its lease.
    """

    lane: int
    entry_id: str
    deliveries: int
    body: bytes = field(repr=False)
    #: It would not be delivered once more: the server counts this delivery when it has begun.
    is_last: bool = False
    has_begun: bool = False
    #: The server was asked to count it: until its answer is here, nothing else tells who has it.
    is_beginning: bool = False
    #: Somebody else may have it now. Never started if it was not yet, never acknowledged.
    is_lost: bool = False
    #: Acknowledged, dead-lettered, handed over or given back; nothing is left to do.
    is_settled: bool = False
    #: A settling command was sent whose reply never came: a refusal is then no news.
    is_in_doubt: bool = False
    #: What its message has as `unique_until`; empty when it has no unique key.
    unique_until: str = ""
    #: It may still have its unique key: the server frees that as it is settled.
    has_unique_key: bool = False
    #: When, on this machine's monotonic clock, a full lease is certain to have begun.
    leased_at_ms: float = field(default_factory=clock.monotonic_ms, repr=False)
    #: When it started, on the same clock; None before.
    started_at_ms: float | None = field(default=None, repr=False)
    #: Whoever takes what is in it decides whether it starts here.
    _decision: list[None] = field(default_factory=lambda: [None], repr=False)
    #: How long it was in its lane before this delivery, by the server's clock.
    waited_ms: float | None = field(default=None, repr=False)

    def start(self) -> bool:
        """Start it; False when it was withdrawn before."""
        is_ours = self._decide()
        if is_ours:
            self.started_at_ms = clock.monotonic_ms()
        return is_ours

    def withdraw(self) -> bool:
        """Have it never start here, to be given back; False when it has started before."""
        is_ours = self._decide()
        self.is_settled = self.is_settled or is_ours
        return is_ours

    def _decide(self) -> bool:
        try:
            self._decision.pop()  # Of several threads one succeeds.
        except IndexError:
            return False
        return True


@dataclass(slots=True)
class RetryHandOver:
    """A retry that must replace its original in one step, and has not done so yet."""

    delivery_id: str
    lane: int
    body: bytes
    delay_ms: int | None


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of deliveries that their worker died with."""

    released: int
    dead_lettered: int

    def __add__(self, other: Recovered) -> Recovered:
        return Recovered(self.released + other.released, self.dead_lettered + other.dead_lettered)


class GivenBack(MiddlewareError):
    """The message was given back before it started."""


class DeliveredMessage(MessageProxy):
    """A message that was read from a queue, with the entry it came from."""

    def __init__(self, message: Message[Any], entry: Entry) -> None:
        super().__init__(message)
        self.entry = entry
        #: `retries` when it was delivered: the Retries middleware raises it before enqueueing.
        self.delivered_retries = message.options.get("retries", 0)
        self.hand_over: RetryHandOver | None = None
        #: What it was to cause, a retry or the next step of a pipeline, could not be enqueued: it
        #: must not be acknowledged, and is delivered again.
        self.must_stay = False
        #: What has to be on the server before it is acknowledged. If that cannot be reached it
        #: raises a BrokerConnectionError, and is called again.
        self.owed: Callable[[], None] | None = None
        #: It was lost or given back before it started: as if it had never been delivered here.
        self.is_withdrawn = False

    @property
    def message(self) -> Message[Any]:
        """The message itself, its options as middleware left them."""
        return self._message

    def give_up(self, error: Exception) -> None:
        """Make a dead letter of it when it is settled, with *error* as the reason."""
        self.fail()
        self.stuff_exception(error)

    @property
    def exception(self) -> BaseException | None:
        """What the actor raised, until the message is settled."""
        return self._exception

    @property
    def is_being_retried(self) -> bool:
        """Whether enqueueing this very proxy means: replace the delivery by a retry."""
        retries = self._message.options.get("retries", 0)
        if not isinstance(retries, int) or not isinstance(self.delivered_retries, int):
            return False
        return retries > self.delivered_retries and not self.entry.is_settled


def encode(message: Message[Any]) -> bytes:
    """Encode *message* as it is stored: on its canonical queue, without an eta.

    The Worker would delay a message with an `eta` a second time, in its own memory.
    """
    queue_name = q_name(message.queue_name)
    if queue_name != message.queue_name or "eta" in message.options:
        message = message.copy(queue_name=queue_name)
        message.options.pop("eta", None)
    if type(message) is Message and type(get_encoder()) is JSONEncoder:
        # The same as below, in two thirds of the time.
        return _JSON.encode(vars(message)).encode()
    return bytes(message.encode())


def decode(entry: Entry, queue_name: str) -> DeliveredMessage:
    """Turn *entry* into the message that a consumer of *queue_name* hands out.

    Raises:
        DecodeError: The body is no message, or one that dramatiq cannot handle.
    """
    message = parsed(entry.body)
    if message.queue_name != queue_name:
        message = message.copy(queue_name=queue_name)
    message.options.pop("eta", None)
    until = message.options.get("unique_until")
    if until is not None:
        entry.unique_until = str(until)
        entry.has_unique_key = True
    return DeliveredMessage(message, entry)
