"""What is given with a call, not with the constructor: messages, names, times to wait (pure)."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

from dramatiq.broker import MessageProxy
from dramatiq.common import q_name
from dramatiq.message import Message
from dramatiq.middleware import Middleware

from .bodies import flaw, is_text
from .errors import InvalidOption
from .options import LONGEST_TIMEOUT_MS, checked_queue_name


def checked_actor_name(name: object) -> str:
    """Return *name* if an actor may be called so.

    Raises:
        InvalidOption: It is no text that can be sent.
    """
    if not isinstance(name, str) or not is_text(name):
        raise InvalidOption.of("actor_name", name, "text")
    return name


def canonical_queue_name(name: object) -> str:
    """The queue that *name* means, also with a suffix that dramatiq puts behind it.

    Raises:
        InvalidOption: It is not a plain name.
    """
    return _canonical(name) if isinstance(name, str) else checked_queue_name(name)


@functools.lru_cache(maxsize=4096)
def _canonical(name: str) -> str:
    return checked_queue_name(q_name(name))


def checked_messages(messages: Iterable[Any]) -> list[Message[Any]]:
    """Return *messages* as a list.

    Raises:
        InvalidOption: It is no iterable, or one of them is no message.
    """
    allowed = "an iterable of messages, as `actor.message(...)` makes them"
    if isinstance(messages, Message | MessageProxy) or not isinstance(messages, Iterable):
        raise InvalidOption.of("messages", messages, allowed)
    return [checked_message(message, "messages", allowed) for message in messages]


def checked_message(
    message: Any, name: str = "message", allowed: str = "what `actor.message(...)` makes"
) -> Message[Any]:
    """Return *message* if it is one, and one that can be run.

    Raises:
        InvalidOption: It is no message, or a field has the wrong type.
    """
    if not isinstance(message, Message | MessageProxy):
        raise InvalidOption.of(name, message, allowed)
    if found := flaw(message):  # type: ignore[arg-type]
        raise InvalidOption(f"A message is not possible: {found}.")
    return message  # type: ignore[return-value]


def checked_interval(interval: object) -> float:
    """Return *interval*, milliseconds between two looks.

    Raises:
        InvalidOption: It is not a positive number, or longer than a day.
    """
    is_number = isinstance(interval, int | float) and not isinstance(interval, bool)
    if not is_number or not 0 < interval <= LONGEST_TIMEOUT_MS:  # type: ignore[operator]
        allowed = f"a number of milliseconds above 0, at most {LONGEST_TIMEOUT_MS}"
        raise InvalidOption.of("interval", interval, allowed)
    return interval  # type: ignore[return-value]


def checked_patience(timeout: object) -> float | None:
    """Return *timeout*, milliseconds to wait at most, or None to wait without end.

    Raises:
        InvalidOption: It is neither.
    """
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    # A negative one has passed already. Not the other way round: a NaN is neither.
    if timeout is not None and not (is_number and -math.inf <= timeout <= math.inf):  # type: ignore[operator]
        raise InvalidOption.of("timeout", timeout, "milliseconds, or None to wait without end")
    return timeout  # type: ignore[return-value]


def checked_middleware(middleware: object) -> list[Middleware]:
    """Return *middleware* as a list.

    Raises:
        InvalidOption: It is no list of them, or has something else in it.
    """
    given = list(middleware) if isinstance(middleware, Iterable) else [None]
    found = [each for each in given if isinstance(each, Middleware)]
    if len(found) < len(given):
        allowed = "a list of middleware, each an object and not its class"
        raise InvalidOption.of("middleware", middleware, allowed)
    return found
