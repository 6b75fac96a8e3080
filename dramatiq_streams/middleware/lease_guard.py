"""A message whose lease was lost before it started is not run here."""

from __future__ import annotations

from dramatiq.broker import Broker, MessageProxy
from dramatiq.middleware import Middleware, SkipMessage

from .. import clock
from ..messages import DeliveredMessage, GivenBack


class LeaseGuard(Middleware):
    """Skips messages that were prefetched by a worker and meanwhile given to another.

    Or that may have been: the server may not have told yet. Such a message is delivered again.

    It stands first in every `StreamsBroker`, and the broker tells no other middleware of such a
    message: it is another worker's to process, to acknowledge and to store a result for.
    """

    def __init__(self, lease_ms: int) -> None:
        self._lease_ms = lease_ms

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        """Skip *message* when its lease was lost.

        Raises:
            SkipMessage: Another worker may be running it.
            GivenBack: It is for others, who need not be told of.
        """
        if not isinstance(message, DeliveredMessage):
            return
        if not message.entry.start():
            message.is_withdrawn = True
            raise GivenBack
        # A process that was stopped, or cut off from its server, for longer than its lease.
        if clock.monotonic_ms() - message.entry.leased_at_ms >= self._lease_ms:
            message.entry.is_lost = True
        if message.entry.is_lost:
            message.is_withdrawn = True
            raise SkipMessage("The lease was lost before the message started.")
