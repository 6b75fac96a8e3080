"""What middleware sends after an actor, a callback or the next step of a pipeline, and its cause.

dramatiq swallows what goes wrong then: acknowledged, the message would end there.
"""

from __future__ import annotations

import threading

from .errors import NotReplicated
from .messages import DeliveredMessage

#: What our checks and encoders raise: trying again would end the same way.
IMPOSSIBLE = (ValueError, TypeError, RecursionError)


class Causes:
    """Knows which message each thread is about."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def begin(self, message: object) -> None:
        """Whatever this thread sends from now on, *message* has caused."""
        self._of_thread.message = message

    def end(self) -> None:
        """What this thread sends from now on has no cause that is known."""
        self._of_thread.message = None

    def is_about(self, message: object) -> bool:
        """Whether this thread is about *message*, whose actor has ended."""
        return getattr(self._of_thread, "message", None) is message

    def keep(self, error: Exception) -> None:
        """What this thread sent has failed: the message that caused it stays, to come again.

        What never can be sent makes a dead letter of it, with the reason.
        """
        cause = getattr(self._of_thread, "message", None)
        if not isinstance(cause, DeliveredMessage) or isinstance(error, NotReplicated):
            return
        if isinstance(error, IMPOSSIBLE):
            cause.give_up(error)
        else:
            cause.must_stay = True
