"""A message that cannot run now comes again later: neither a retry nor a delivery more.

A deferral replaces the delivery in one step, as a retry does, so that nothing is lost or doubled.
The count of deliveries begins anew with it; what it was is kept in the message, so that a message
that kills its worker each time still becomes a dead letter.
"""

from __future__ import annotations

import random
from typing import Any, Protocol

import redis
from dramatiq.actor import Actor
from dramatiq.errors import BrokerConnectionError
from dramatiq.logging import get_logger
from dramatiq.middleware import Middleware

from ...errors import StreamsError
from ...events import Events
from ...messages import DeliveredMessage
from ...options import BrokerOptions
from .replays import silence

#: How often a message was deferred.
DEFERRALS = "idempotency_deferrals"
#: How often it was delivered, to a worker that died, before it was deferred.
DELIVERIES = "idempotency_deliveries"

#: The first wait for a key that somebody else runs; the next ones are twice as long each.
FIRST_WAIT_MS = 250
LONGEST_WAIT_MS = 60_000

_logger = get_logger(__name__)


class Streams(Protocol):
    """What this room needs of a `StreamsBroker`."""

    namespace: str
    options: BrokerOptions
    events: Events
    middleware: list[Middleware]

    @property
    def client(self) -> redis.Redis:
        """A client of its server."""

    def get_actor(self, actor_name: str) -> Actor[Any, Any]:
        """An actor by its name."""

    def defer(self, message: DeliveredMessage, *, delay: int) -> bool:
        """Replace a delivery by the same message, delivered after *delay* milliseconds."""


def wait_ms(left_ms: float, deferrals: int) -> int:
    """How long to wait for somebody who has a lease for *left_ms* more, and may be done sooner.

    Never until just before the lease ends, and not all at the same time.
    """
    patience_ms = min(FIRST_WAIT_MS * 2 ** min(deferrals, 20), LONGEST_WAIT_MS)
    return int(min(max(left_ms, 1), patience_ms) * random.uniform(1.0, 1.25)) + 5


def deferrals_of(message: DeliveredMessage) -> int:
    """How often *message* was deferred."""
    return _count(message, DEFERRALS)


def deliveries_of(message: DeliveredMessage) -> int:
    """How often *message* was delivered, this time included, deferrals left out."""
    return _count(message, DELIVERIES) + message.entry.deliveries


def defer(broker: Streams, message: DeliveredMessage, *, delay_ms: int) -> None:
    """Have *message* delivered again after *delay_ms*; here it must not be run."""
    message.options[DEFERRALS] = deferrals_of(message) + 1
    message.options[DELIVERIES] = deliveries_of(message) - 1
    try:
        broker.defer(message, delay=delay_ms)
    except (BrokerConnectionError, StreamsError) as error:
        # Its acknowledgement does it, and is tried until the server is back.
        _logger.warning("Message %s is not deferred yet: %s", message.message_id, error)
    silence(message)


def forget_deferrals(message: DeliveredMessage) -> None:
    """Let *message*, which runs now, be as if it never was deferred, should it be retried."""
    message.options.pop(DEFERRALS, None)
    message.options.pop(DELIVERIES, None)


def _count(message: DeliveredMessage, option: str) -> int:
    count: Any = message.options.get(option, 0)
    return count if isinstance(count, int) and count > 0 else 0
