"""Which messages have a key, and which: from options of actors and of messages to a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dramatiq.actor import Actor
from dramatiq.broker import Broker, MessageProxy

from ...errors import InvalidIdempotency
from .options import IdempotencyOptions, checked_ttl
from .records import Request
from .templates import KEY, KeyMaker

#: The options of actors, and of messages: an option of a message comes before its actor's.
TTL = "idempotency_ttl"
INTERRUPT = "idempotency_interrupt"


class Requests:
    """Knows the keys of all actors of a broker."""

    def __init__(self, options: IdempotencyOptions) -> None:
        self._options = options
        self._makers: dict[str, KeyMaker] = {}
        #: For messages that have a key by themselves.
        self._plain_makers: dict[str, KeyMaker] = {}

    def declare(self, actor: Actor[Any, Any], *, lease_ms: int) -> None:
        """Check the options of *actor*; a broker gives up a worker's messages after *lease_ms*.

        Raises:
            InvalidIdempotency: One of them is not possible.
        """
        for makers in (self._makers, self._plain_makers):
            makers.pop(actor.actor_name, None)
        self._check(actor.options, lease_ms=lease_ms)
        option = actor.options.get(KEY)
        if option is not None and option is not False:
            self._makers[actor.actor_name] = KeyMaker.of(actor, option)

    def check_message(self, options: Mapping[str, object], *, lease_ms: int) -> None:
        """Check the options of one message; a broker gives it up after *lease_ms*.

        Raises:
            InvalidIdempotency: One of them is not possible.
        """
        self._check(options, lease_ms=lease_ms)
        given = options.get(KEY)
        if given is not None and not isinstance(given, bool) and not _is_text(given):
            raise InvalidIdempotency.of(KEY, given, "True, False or a text, for a message")

    def _check(self, options: Mapping[str, object], *, lease_ms: int) -> None:
        if (ttl := options.get(TTL)) is not None:
            self.checked_ttl(ttl, lease_ms=lease_ms)
        interrupt = options.get(INTERRUPT)
        if interrupt is not None and not isinstance(interrupt, bool):
            raise InvalidIdempotency.of(INTERRUPT, interrupt, "True or False")

    def checked_ttl(self, ttl: object, *, lease_ms: int, name: str = TTL) -> int:
        """Return *ttl* if it is longer than the leases of both the key and its message."""
        return checked_ttl(ttl, name=name, lease_ms=max(lease_ms, self._options.lease_ms))

    def of(self, broker: Broker, message: MessageProxy) -> Request | None:
        """What *message* asks for; None if it has no key.

        Raises:
            InvalidIdempotency: Its key cannot be made, or its option is not possible.
        """
        maker, given = self._makers.get(message.actor_name), message.options.get(KEY)
        if given is False or (given is None and maker is None):
            return None
        self.check_message(message.options, lease_ms=0)
        actor = broker.get_actor(message.actor_name)
        if given is True or maker is None:
            maker = self._plain_maker(actor)
        arguments = maker.arguments_hash(message.args, message.kwargs)
        if isinstance(given, str):
            key = maker.scoped(given)
        else:
            key = maker.key(message.args, message.kwargs)
        ttl = _of_either(TTL, message, actor)
        return Request(
            key, arguments, message.message_id, self._options.ttl_ms if ttl is None else ttl
        )

    def _plain_maker(self, actor: Actor[Any, Any]) -> KeyMaker:
        found = self._plain_makers.get(actor.actor_name)
        if found is None:
            made = KeyMaker.of(actor, True)
            found = self._plain_makers.setdefault(actor.actor_name, made)
        return found


def wants_interrupt(broker: Broker, message: MessageProxy) -> bool:
    """Whether the actor of *message* is to be told when its lease is lost."""
    return _of_either(INTERRUPT, message, broker.get_actor(message.actor_name)) is True


def _of_either(name: str, message: MessageProxy, actor: Actor[Any, Any]) -> Any:
    given = message.options.get(name)
    return actor.options.get(name) if given is None else given


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""
