"""Messages that are sent once: their options, their keys, and the moment at which they start."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dramatiq.actor import Actor
from dramatiq.broker import Broker, MessageProxy
from dramatiq.errors import BrokerConnectionError
from dramatiq.logging import get_logger
from dramatiq.message import Message
from dramatiq.middleware import Middleware

from ..errors import InvalidOption, StreamsError
from ..messages import DeliveredMessage
from ..uniqueness import OPTIONS, Reservation, Uniqueness, Until
from .idempotency.templates import KeyMaker

if TYPE_CHECKING:
    from ..process import Process


class Unique(Middleware):
    """Knows which messages have a unique key; frees it when a message starts, if it is to.

    Every `StreamsBroker` has it, behind all others: what they keep from running has not started.

    Args:
        process: What this process has of the broker; asked for anew in each process.
        actor: Finds an actor of the broker by its name.
    """

    def __init__(
        self,
        process: Callable[[], Process],
        *,
        actor: Callable[[str], Actor[Any, Any] | None],
    ) -> None:
        self.logger = get_logger(__name__, type(self))
        self._process = process
        self._actor = actor
        self._makers: dict[str, KeyMaker] = {}

    @property
    def actor_options(self) -> set[str]:
        """The options that actors and messages may have."""
        return {*OPTIONS, "idempotency_key"}

    def check_actor(self, actor: Actor[Any, Any], *, has_idempotency: bool) -> None:
        """Check the options of *actor* as it is declared.

        Args:
            has_idempotency: Whether other middleware makes use of `idempotency_key`.

        Raises:
            InvalidOption: One of them is not possible, or is of no use.
        """
        is_unique = Uniqueness.of({}, actor.options) is not None
        option = actor.options.get("idempotency_key")
        if is_unique:
            self._makers[actor.actor_name] = KeyMaker.of(actor, True if option is None else option)
        elif option is not None and not has_idempotency:
            raise InvalidOption(
                f"Actor {actor.actor_name!r} has an idempotency_key, and nothing makes use of it:"
                " give it unique_for or unique_until, or the broker the middleware Idempotency."
            )

    def check(self, message: Message[Any]) -> Uniqueness | None:
        """What *message* asks for.

        Raises:
            InvalidOption: One of its options is not possible.
        """
        actor = self._actor(message.actor_name)
        return Uniqueness.of(message.options, actor.options if actor else {})

    def reservation(self, message: Message[Any], *, follows_itself: bool) -> Reservation | None:
        """The key that *message* is to have, or None; its options tell of it from now on.

        Raises:
            InvalidOption: One of its options is not possible, or its key cannot be made.
        """
        uniqueness = self.check(message)
        if uniqueness is None:
            return None
        message.options.update(uniqueness.as_options())
        return Reservation(
            self._key(message), uniqueness.unique_for_ms, message.message_id, follows_itself
        )

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        """Free the key of *message*, if it is unique only until it starts."""
        if not isinstance(message, DeliveredMessage):
            return
        entry = message.entry
        if not entry.has_unique_key or entry.unique_until != Until.STARTED:
            return
        try:
            self._process().reservations.start(message.queue_name, entry)
        except (BrokerConnectionError, StreamsError) as error:
            self.logger.warning(
                "The unique key of message %r is free only when the message is done: %s",
                message.message_id,
                error,
            )

    def _key(self, message: Message[Any]) -> str:
        own = message.options.get("idempotency_key")
        actor = self._actor(message.actor_name)
        if isinstance(own, str) and own:
            return KeyMaker(message.actor_name, True, inspect.Signature()).scoped(own)
        if own is not None and not isinstance(own, bool):
            allowed = "a text, True or False, where it is the option of a message"
            raise InvalidOption.of("idempotency_key", own, allowed)
        if actor is None:
            raise InvalidOption(
                f"Actor {message.actor_name!r} is not known here, nor are its arguments: a message"
                " with unique_for or unique_until needs its key as the option idempotency_key."
            )
        # True or False: not the actor's key, but all arguments.
        maker = self._maker(actor) if own is None else KeyMaker.of(actor, True)
        try:
            return maker.key(message.args, message.kwargs)
        except TypeError as error:
            raise InvalidOption(
                f"Actor {message.actor_name!r} cannot be called with these arguments: {error}"
            ) from error

    def _maker(self, actor: Actor[Any, Any]) -> KeyMaker:
        """The maker of an actor's keys; one that was declared without them gets its own now."""
        found = self._makers.get(actor.actor_name)
        if found is None:
            option = actor.options.get("idempotency_key")
            made = KeyMaker.of(actor, True if option is None else option)
            found = self._makers.setdefault(actor.actor_name, made)
        return found
