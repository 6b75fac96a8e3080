"""Messages that are sent once: their options, their keys, and the moment at which they start."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dramatiq.actor import Actor
from dramatiq.broker import Broker, MessageProxy
from dramatiq.errors import BrokerConnectionError
from dramatiq.logging import get_logger
from dramatiq.message import Message, get_encoder
from dramatiq.middleware import Middleware

from ..errors import InvalidOption, StreamsError
from ..messages import DeliveredMessage
from ..uniqueness import OPTIONS, UNIQUE_KEY, Reservation, Uniqueness, Until
from .idempotency.templates import KEY, KeyMaker

if TYPE_CHECKING:
    from ..process import Process


class Unique(Middleware):
    """Knows which messages have a unique key; frees it when a message starts, if it is to.

    Every `StreamsBroker` has it, behind all others: what they keep from running has not started.

    Args:
        process: What this process has of the broker; asked for anew in each process.
        actors: The actors of the broker by name, who may come later.
    """

    def __init__(
        self,
        process: Callable[[], Process],
        *,
        actors: Callable[[], Mapping[str, Actor[Any, Any]]],
    ) -> None:
        self.logger = get_logger(__name__, type(self))
        self._process = process
        self._actors = actors
        self._makers: dict[str, KeyMaker] = {}

    @property
    def actor_options(self) -> set[str]:
        """The options that actors and messages may have."""
        return {*OPTIONS, UNIQUE_KEY, KEY}

    def check_actor(self, actor: Actor[Any, Any], *, has_idempotency: bool) -> None:
        """Check the options of *actor* as it is declared.

        Args:
            has_idempotency: Whether other middleware makes use of `idempotency_key`.

        Raises:
            InvalidOption: One of them is not possible, or is of no use.
        """
        self._makers.pop(actor.actor_name, None)
        is_unique = Uniqueness.of({}, actor.options) is not None
        has_own = actor.options.get(UNIQUE_KEY) is not None
        if has_own and not is_unique:
            raise _useless(f"Actor {actor.actor_name!r}")
        if is_unique:
            self._makers[actor.actor_name] = _made(actor)
        is_used = has_idempotency or (is_unique and not has_own)
        if actor.options.get(KEY) is not None and not is_used:
            raise InvalidOption(
                f"Actor {actor.actor_name!r} has an idempotency_key, and nothing makes use of it:"
                " give it unique_for or unique_until, or the broker the middleware Idempotency."
            )

    def check(self, message: Message[Any]) -> Uniqueness | None:
        """What *message* asks for.

        Raises:
            InvalidOption: One of its options is not possible, or is of no use.
        """
        actor = self._actors().get(message.actor_name)
        uniqueness = Uniqueness.of(message.options, actor.options if actor else {})
        if uniqueness is not None:
            _own_key(message.options, actor)
        elif message.options.get(UNIQUE_KEY) is not None:
            raise _useless("A message")
        return uniqueness

    def mark(self, message: Message[Any]) -> Uniqueness | None:
        """What *message* asks for, or None; its options tell of it from now on.

        Raises:
            InvalidOption: One of its options is not possible.
        """
        uniqueness = self.check(message)
        if uniqueness is not None:
            message.options.update(uniqueness.as_options())
        return uniqueness

    def reservation(
        self, body: bytes, uniqueness: Uniqueness, *, follows_itself: bool
    ) -> Reservation:
        """The key that a message is to have.

        Args:
            body: The message encoded. Its arguments are taken as they arrive: a tuple is a list by
                then, for example, as it is for those who look at its key in a worker.
            uniqueness: What it asks for.
            follows_itself: It is enqueued by its own delivery.

        Raises:
            InvalidOption: Its key cannot be made.
        """
        arrived = get_encoder().decode(body)
        key, message_id = self._key(arrived), arrived["message_id"]
        return Reservation(key, uniqueness.unique_for_ms, message_id, follows_itself)

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

    def _key(self, message: Mapping[str, Any]) -> str:
        """The key of a message of which these are the fields."""
        actor_name = message["actor_name"]
        actor = self._actors().get(actor_name)
        own = _own_key(message["options"], actor)
        if isinstance(own, str):
            return KeyMaker(actor_name, True, inspect.Signature()).scoped(own)
        if actor is None:
            raise InvalidOption(
                f"Actor {actor_name!r} is not known here, nor are its arguments: a message"
                " with unique_for or unique_until needs its key as the option unique_key, or"
                " idempotency_key."
            )
        # True or False: not the actor's key, but all arguments.
        maker = self._maker(actor) if own is None else KeyMaker.of(actor, True)
        return maker.key(message["args"], message["kwargs"])

    def _maker(self, actor: Actor[Any, Any]) -> KeyMaker:
        """The maker of an actor's keys; one that was declared without them gets its own now."""
        found = self._makers.get(actor.actor_name)
        if found is None:
            found = self._makers.setdefault(actor.actor_name, _made(actor))
        return found


def _made(actor: Actor[Any, Any]) -> KeyMaker:
    """The maker of the keys that *actor* was declared with; without any, of all arguments."""
    own = actor.options.get(UNIQUE_KEY)
    if own is not None:
        return KeyMaker.of(actor, own, option_name=UNIQUE_KEY)
    option = actor.options.get(KEY)
    return KeyMaker.of(actor, True if option is None or option is False else option)


def _own_key(options: Mapping[str, Any], actor: Actor[Any, Any] | None) -> Any:
    """The key that a message has by itself, or how it is to be made; None to leave it to *actor*.

    Raises:
        InvalidOption: It is not possible.
    """
    name, own = UNIQUE_KEY, options.get(UNIQUE_KEY)
    allowed = "a text or True, where it is the option of a message"
    if own is None and (actor is None or actor.options.get(UNIQUE_KEY) is None):
        name, own = KEY, options.get(KEY)
        allowed = "a text, True or False, where it is the option of a message"
    is_text = isinstance(own, str) and own != ""
    if own is None or own is True or is_text or (own is False and name == KEY):
        return own
    raise InvalidOption.of(name, own, allowed)


def _useless(owner: str) -> InvalidOption:
    return InvalidOption(
        f"{owner} has a unique_key, and nothing makes use of it: give it unique_for or"
        " unique_until, too."
    )
