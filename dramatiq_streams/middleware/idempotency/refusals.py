"""What becomes of a message that may not run, or not now: skipped, replayed, deferred or failed."""

from __future__ import annotations

from typing import NoReturn

from dramatiq.logging import get_logger
from dramatiq.middleware import SkipMessage

from ...errors import DeliveredTooOften, DuplicateMessage, IdempotencyConflict, NotClaimed
from ...events import Event
from ...messages import DeliveredMessage
from .claiming import Refusal, Unavailable
from .deferring import Streams, defer, deferrals_of, deliveries_of, wait_ms
from .options import IdempotencyOptions, OnBusy, OnDuplicate, OnUnavailable
from .records import Busy, Conflict, Done
from .replays import Replays, silence

#: How long a message waits when the records cannot be reached.
UNREACHABLE_MS = 1_000

#: Lock servers that are away are not back within milliseconds: the first waits are left out.
_AWAY = 2


class Refusals:
    """Refuses messages of *broker*, as the options have it. Each method raises."""

    def __init__(self, broker: Streams, options: IdempotencyOptions) -> None:
        self.logger = get_logger(__name__, type(self))
        self._broker = broker
        self._options = options

    def check_deliveries(self, message: DeliveredMessage, *, key: str) -> None:
        """Refuse what has killed its worker too often; its deferrals have hidden that.

        Raises:
            DeliveredTooOften: It becomes a dead letter.
        """
        most = self._broker.options.max_deliveries
        if deliveries_of(message) > most:
            text = f"It was delivered {most} times, and its worker died each time."
            self._bury(message, text, key)
            raise DeliveredTooOften(text)

    def refuse(self, message: DeliveredMessage, refusal: Refusal, *, key: str) -> NoReturn:
        """Refuse *message*, which has *key*, and log why: dramatiq's own line is the same for all.

        Raises:
            SkipMessage: It is acknowledged, or was deferred; failed, it becomes a dead letter.
            NotClaimed: It fails as if its actor had raised.
        """
        match refusal:
            case Done():
                self._skip_duplicate(message, refusal, key)
            case Busy():
                self._skip_or_defer(message, refusal, key)
            case Conflict():
                self._tell(Event.KEY_CONFLICT, message)
                text = (
                    f"Message {refusal.message_id} has the same idempotency key, and other"
                    " arguments."
                )
                self._bury(message, text, key)
                raise IdempotencyConflict(text)
            case Unavailable() if self._options.on_unavailable is OnUnavailable.DEFER:
                self.logger.debug("Message %s waits for locks: %s", message, refusal.why)
                self._defer(message, wait_ms(self._options.lease_ms, deferrals_of(message) + _AWAY))
            case Unavailable():
                raise NotClaimed(refusal.why)

    def defer_unreachable(self, message: DeliveredMessage) -> NoReturn:
        """Defer *message*, whose record cannot be reached: as soon as its server is back.

        Raises:
            SkipMessage: Always.
        """
        self._defer(message, UNREACHABLE_MS)

    def _skip_duplicate(self, message: DeliveredMessage, done: Done, key: str) -> NoReturn:
        self._tell(Event.DUPLICATE_SKIPPED, message)
        name = message.message_id
        text = f"Message {done.message_id} with the same idempotency key is done."
        if done.message_id == name:
            self.logger.info("Key %r: message %s is done already, skipped.", key, name)
            # It was delivered again after it was done: what it had to store is stored.
            silence(message)
            raise SkipMessage(text)
        if self._options.on_duplicate is OnDuplicate.RAISE:
            self._bury(message, text, key)
            raise DuplicateMessage(text)
        self.logger.info(
            "Key %r: message %s is a duplicate of message %s, skipped.", key, name, done.message_id
        )
        if self._options.on_duplicate is OnDuplicate.REPLAY and done.result is not None:
            replays = Replays.of(self._broker, message)
            if replays is not None:
                replays.replay(message, done.result)
                silence(message)
        raise SkipMessage(text)

    def _skip_or_defer(self, message: DeliveredMessage, busy: Busy, key: str) -> NoReturn:
        name = message.message_id
        # Its own earlier delivery may have died, and of several that are about to start each may
        # have kept the others from it: skipped, none of them would run.
        is_anothers = busy.message_id not in ("", name)
        if self._options.on_busy is OnBusy.SKIP and is_anothers:
            self._tell(Event.DUPLICATE_SKIPPED, message)
            self.logger.info("Key %r: message %s runs, %s is skipped.", key, busy.message_id, name)
            raise SkipMessage("Another message with the same key runs.")
        delay_ms = wait_ms(busy.left_ms, deferrals_of(message))
        self.logger.debug(
            "Key %r: another worker has it, message %s waits for %d ms.", key, name, delay_ms
        )
        self._defer(message, delay_ms)

    def _bury(self, message: DeliveredMessage, why: str, key: str) -> None:
        self.logger.warning(
            "Key %r: message %s becomes a dead letter: %s", key, message.message_id, why
        )
        message.fail()

    def _defer(self, message: DeliveredMessage, delay_ms: int) -> NoReturn:
        self._tell(Event.DEFERRED, message)
        defer(self._broker, message, delay_ms=delay_ms)
        raise SkipMessage("The message is delivered again later.")

    def _tell(self, event: Event, message: DeliveredMessage) -> None:
        self._broker.events.tell(event, message.queue_name)
