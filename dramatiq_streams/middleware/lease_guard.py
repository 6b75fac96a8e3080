"""A message whose lease was lost before it started is not run here."""

from __future__ import annotations

from dramatiq.broker import Broker, MessageProxy
from dramatiq.middleware import Middleware, SkipMessage

from ..messages import DeliveredMessage


class LeaseGuard(Middleware):
    """Skips messages that were prefetched by a worker and meanwhile given to another.

    It stands first in every `StreamsBroker`, so that no other middleware acts on such a message.
    """

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        """Skip *message* when its lease was lost.

        Raises:
            SkipMessage: Another worker may be running it.
        """
        if isinstance(message, DeliveredMessage) and message.entry.is_lost:
            raise SkipMessage("The lease was lost before the message started.")
