"""A message with options that dramatiq could not use is not run."""

from __future__ import annotations

from dramatiq.broker import Broker, MessageProxy
from dramatiq.middleware import Middleware, SkipMessage

from ..errors import InvalidOption
from ..vetting import Vetting


class OptionGuard(Middleware):
    """Makes dead letters of messages with impossible options, before they start.

    No `StreamsBroker` sends such a message; others may write to the server too.

    Args:
        vetting: What is impossible depends on the middleware there is.
    """

    def __init__(self, vetting: Vetting) -> None:
        self._vetting = vetting

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        """Give up on *message* when an option is impossible.

        Raises:
            SkipMessage: It becomes a dead letter, with this text.
        """
        try:
            self._vetting.check_message(message.options)
        except InvalidOption as error:
            message.fail()
            raise SkipMessage(str(error)) from error
