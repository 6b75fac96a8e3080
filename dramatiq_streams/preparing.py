"""What happens to a message before it is sent: checks, middleware, lane, encoding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dramatiq.actor import Actor
from dramatiq.logging import get_logger
from dramatiq.message import Message

from . import clock
from .arguments import canonical_queue_name
from .bodies import MOST_NESTED, too_deep
from .errors import InvalidOption, MessageTooLarge
from .messages import DeliveredMessage, encode
from .options import BrokerOptions, checked_delay, delay_until
from .outbox import Outgoing
from .vetting import Vetting, as_message

if TYPE_CHECKING:
    from .middleware.unique import Unique

#: How many messages are sent, at the most, before the replies are read.
CHUNK = 1_000

#: How many bytes of messages are sent, about, before the replies are read.
CHUNK_BYTES = 8 * 2**20


class Preparing:
    """Makes `Outgoing` of messages, or says why they cannot be enqueued."""

    def __init__(
        self,
        options: BrokerOptions,
        *,
        max_message_bytes: int,
        actors: Mapping[str, Actor[Any, Any]],
        vetting: Vetting,
        emit_before: Callable[..., None],
        unique: Unique,
    ) -> None:
        self.logger = get_logger(__name__, type(self))
        self._options = options
        self._max_message_bytes = max_message_bytes
        self._actors = actors
        self._vetting = vetting
        self._emit_before = emit_before
        self._unique = unique

    def check(self, message: Message[Any], delay: int | None) -> None:
        """Refuse what cannot be enqueued. What middleware may change is looked at again later.

        Raises:
            InvalidOption: The queue, the lane, the priority, the delay, or what makes it unique, is
                not possible.
        """
        canonical_queue_name(message.queue_name)
        self._lane(message, None)
        self._unique.check(message)
        self._delay(message, delay, fallback=None)

    def check_new(self, message: Message[Any], delay: int | None) -> None:
        """Refuse a new message that cannot be enqueued, or run, or lead to its next step.

        Raises:
            InvalidOption: As `check`, or an option of dramatiq's middleware is not possible.
        """
        step: Message[Any] | None = message
        while step is not None:
            self.check(step, delay)
            self._vetting.check_message(step.options)
            step = as_message(step.options.get("pipe_target"))
            delay = step.options.get("delay") if step is not None else None

    def check_all_new(self, messages: Iterable[Message[Any]], delay: int | None) -> None:
        """`check_new` all of *messages*.

        Those without options differ by their queue and actor only: of these it checks one.
        """
        checked: set[tuple[str, str]] = set()
        for message in messages:
            place = message.queue_name, message.actor_name
            if message.options or place not in checked:
                self.check_new(message, delay)
            if not message.options:
                checked.add(place)

    def prepare(
        self, message: Message[Any], delay: int | None, *, follows_itself: bool = False
    ) -> Outgoing:
        """Prepare a new message, which `check_new` allows; `before_enqueue` is emitted.

        Args:
            follows_itself: It is enqueued by its own delivery, and may take its unique key over.

        Raises:
            InvalidOption: As `check`, or its unique key cannot be made.
            MessageTooLarge: It has more than `max_message_bytes`.
        """
        outgoing = self._prepared(message, delay, follows_itself=follows_itself)
        if len(outgoing.body) > self._max_message_bytes:
            raise MessageTooLarge(
                f"Message {message.message_id} of actor {message.actor_name!r} has"
                f" {len(outgoing.body):,} bytes when it is encoded: max_message_bytes allows"
                f" {self._max_message_bytes:,}."
                " Store what is large elsewhere, and send where it is; or raise max_message_bytes"
                " of every StreamsBroker."
            )
        return outgoing

    def prepare_retry(self, message: DeliveredMessage, delay: int | None) -> Outgoing:
        """Prepare the retry of *message*; `before_enqueue` is emitted.

        It comes back with its traceback, under whatever options it was sent with, and has to go
        somewhere: neither its size nor a lane that is no longer there can refuse it.
        """
        if isinstance(delay, int | float) and delay < 0:
            delay = 0  # Of `Retry(delay=reset_at - now)`, when that moment has passed.
        return self._prepared(message.message, delay, fallback=message.entry.lane)

    def prepare_deferral(self, message: DeliveredMessage, delay: int) -> Outgoing:
        """Prepare *message* to replace its own delivery: it stays what it is, where it is."""
        plain = message.message
        return Outgoing.of(
            plain, message.entry.lane, encode(plain), delay=checked_delay(delay), is_retry=True
        )

    def prepare_chunk(self, messages: Sequence[Message[Any]], delay: int | None) -> list[Outgoing]:
        """Prepare as many of *messages*, from the first, as go into one round trip."""
        chunk: list[Outgoing] = []
        size = 0
        for message in messages[:CHUNK]:
            chunk.append(self.prepare(message, delay))
            size += len(chunk[-1].body)
            if size >= CHUNK_BYTES:
                break
        return chunk

    def _prepared(
        self,
        message: Message[Any],
        delay: int | None,
        *,
        fallback: int | None = None,
        follows_itself: bool = False,
    ) -> Outgoing:
        delay = self._delay(message, delay, fallback=fallback)
        message = _copied(message)
        message.options.pop("eta", None)
        if delay is not None:
            message.options["eta"] = clock.wall_ms() + delay
        self.logger.debug("Enqueueing %r on queue %r.", message.message_id, message.queue_name)
        self._emit_before("enqueue", message, delay)
        # Only now: middleware may have changed the options.
        lane = self._lane(message, fallback)
        uniqueness = self._unique.mark(message) if fallback is None else None  # A retry has one.
        body, reservation = _encoded(message), None
        if uniqueness is not None:
            reservation = self._unique.reservation(body, uniqueness, follows_itself=follows_itself)
        return Outgoing.of(
            message,
            lane,
            body,
            delay=delay,
            reservation=reservation,
            is_retry=fallback is not None,
        )

    def _delay(
        self, message: Message[Any], delay: int | None, *, fallback: int | None
    ) -> int | None:
        if delay is not None:
            return checked_delay(delay)
        if "eta" not in message.options:
            return None
        try:
            return delay_until(message.options["eta"], now_ms=clock.wall_ms())
        except InvalidOption:
            if fallback is None:
                raise
            return None

    def _lane(self, message: Message[Any], fallback: int | None) -> int:
        """The message's lane; *fallback* for a retry whose own is no longer there."""
        actor = self._actors.get(message.actor_name)
        of_actor = (actor.options, actor.priority) if actor else ({}, 0)
        try:
            return self._options.lanes.choose(message.options, *of_actor)
        except InvalidOption:
            if fallback is None:
                raise
            return fallback


def _copied(message: Message[Any]) -> Message[Any]:
    """A copy whose options can be changed; a plain message's own `copy` takes much longer."""
    if type(message) is not Message:
        return message.copy()
    copied: Message[Any] = object.__new__(Message)
    vars(copied).update(vars(message), options=dict(message.options))
    return copied


def _encoded(message: Message[Any]) -> bytes:
    """*message* as it is stored.

    Raises:
        InvalidOption: It is nested so deeply that no worker could handle it.
    """
    try:
        body = encode(message)
        found = too_deep(message, body)
    except RecursionError:
        found = f"nested more than {MOST_NESTED} deep"
    if found is not None:
        raise InvalidOption(
            f"Message {message.message_id} of actor {message.actor_name!r} is not possible:"
            f" its arguments or options are {found}."
        )
    return body
