"""Options of dramatiq's own middleware, with values that it could not use in a worker (pure).

dramatiq checks none of them. There, a wrong one ends a thread (`throws`), loses the message
(`retries`), repeats it (`max_retries`) or is left out silently (`time_limit`). So it is refused
where it is given, and a message that has it all the same is not run. What belongs to middleware
that the broker does not have is nobody's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dramatiq.message import Message
from dramatiq.middleware import (
    AgeLimit,
    Callbacks,
    GroupCallbacks,
    Middleware,
    Pipelines,
    Retries,
    TimeLimit,
)
from dramatiq.results import Results

from .bodies import flaw
from .errors import InvalidOption
from .options import LONGEST_DELAY_MS, is_dead_message_ttl


@dataclass(frozen=True, slots=True)
class Rule:
    """What an option may be, where the broker has *middleware*."""

    middleware: type[Middleware]
    is_possible: Callable[[object], bool]
    allowed: str


class ChecksMessages:
    """Middleware that knows what its own options of messages may be."""

    def check_message_options(self, options: Mapping[str, object], *, lease_ms: int) -> None:
        """Check the options of one message; the broker gives it up after *lease_ms*.

        Raises:
            InvalidOption: Naming the option, its value and what is allowed.
        """
        raise NotImplementedError


class Vetting:
    """Refuses options that one of *middleware* could not use.

    Args:
        middleware: The broker's own list, to which more may be added.
        lease_ms: The broker's lease.
    """

    def __init__(self, middleware: Sequence[Middleware], *, lease_ms: int) -> None:
        self._middleware = middleware
        self._lease_ms = lease_ms

    def check_actor(self, options: Mapping[str, object]) -> None:
        """Check the options that an actor was declared with.

        Raises:
            InvalidOption: Naming the option, its value and what is allowed.
        """
        self._check(options, _OF_ACTORS)

    def check_message(self, options: Mapping[str, object]) -> None:
        """Check the options of one message; not those of the next step of its pipeline.

        Raises:
            InvalidOption: Naming the option, its value and what is allowed.
        """
        if not options:
            return
        self._check(options, _OF_MESSAGES)
        for middleware in self._middleware:
            if isinstance(middleware, ChecksMessages):
                middleware.check_message_options(options, lease_ms=self._lease_ms)

    def _check(self, options: Mapping[str, object], rules: Mapping[str, Rule]) -> None:
        for name, value in options.items():
            rule = rules.get(name)
            if rule and not rule.is_possible(value) and self._has(rule.middleware):
                raise InvalidOption.of(name, value, rule.allowed)

    def _has(self, kind: type[Middleware]) -> bool:
        return any(isinstance(each, kind) for each in self._middleware)


def as_message(fields: object) -> Message[object] | None:
    """The message whose *fields* are the next step of a pipeline; None when it is none."""
    if not isinstance(fields, dict):
        return None
    try:
        message: Message[object] = Message(**fields)
    except TypeError:
        return None
    return None if flaw(message) else message


def _is_number(value: object) -> bool:
    # A NaN is neither; `math.isnan` fails on integers that no float can hold.
    return isinstance(value, int | float) and -math.inf <= value <= math.inf


def _is_from_zero(value: object, most: float = LONGEST_DELAY_MS) -> bool:
    return isinstance(value, int | float) and 0 <= value <= most


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= LONGEST_DELAY_MS


def _is_limit(value: object) -> bool:
    return _is_from_zero(value) or (isinstance(value, float) and value == math.inf)


def _is_name(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_catchable(value: object) -> bool:
    try:
        isinstance(None, value)  # type: ignore[arg-type]
    except TypeError:
        return not value
    return True


def _is_next_step(value: object) -> bool:
    return value is None or as_message(value) is not None


def _are_messages(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(map(as_message, value)))


def _or_none(is_possible: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or is_possible(value)


_MS = "milliseconds, from 0 to 10**13"
_LIFETIME = "a whole number of milliseconds from 1000 to 100 years"
_NAME = "the name of an actor, as text"
_LIMIT = f"{_MS}, or float('inf')"
_MESSAGE = "the fields of a message, as `pipeline` makes it"

_OF_BOTH: Mapping[str, Rule] = {
    "max_retries": Rule(Retries, _or_none(_is_number), "a number, or None for no limit"),
    "min_backoff": Rule(Retries, _is_from_zero, _MS),
    "max_backoff": Rule(Retries, lambda value: _is_from_zero(value, math.inf), "milliseconds"),
    "throws": Rule(Retries, _is_catchable, "an exception class, or a tuple of them"),
    "on_retry_exhausted": Rule(Retries, _is_name, _NAME),
    "max_age": Rule(AgeLimit, _or_none(_is_limit), _LIMIT),
    "on_success": Rule(Callbacks, _is_name, _NAME),
    "on_failure": Rule(Callbacks, _is_name, _NAME),
    # Our own, and some middleware is always there.
    "dead_message_ttl": Rule(Middleware, _or_none(is_dead_message_ttl), _LIFETIME),
    "result_ttl": Rule(Results, _is_whole, f"whole {_MS}"),
}
_OF_ACTORS: Mapping[str, Rule] = {
    **_OF_BOTH,
    "time_limit": Rule(TimeLimit, _is_limit, _LIMIT),
    "retry_when": Rule(Retries, _or_none(callable), "a function of retries and exception"),
}
_OF_MESSAGES: Mapping[str, Rule] = {
    **_OF_BOTH,
    "time_limit": Rule(TimeLimit, _or_none(_is_limit), _LIMIT),
    "retries": Rule(Retries, _is_whole, "a whole number, 0 or more"),
    "pipe_target": Rule(Pipelines, _is_next_step, _MESSAGE),
    "group_completion_uuid": Rule(GroupCallbacks, _is_name, "text, as `group` makes it"),
    "group_completion_callbacks": Rule(
        GroupCallbacks, _are_messages, "a list of the fields of messages, as `group` makes it"
    ),
}
