"""What `unique_for` and `unique_until` ask for: a message that is there once (pure).

What a message asks for is written into its own options when it is sent: whoever handles it later
need not know its actor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .errors import InvalidOption

#: How long a unique key is reserved for at most, unless `unique_for` says it: a day.
DEFAULT_UNIQUE_FOR_MS = 86_400_000

#: Some 100 years, and still exact as a score when a delay is added.
LONGEST_UNIQUE_FOR_MS = 100 * 366 * 86_400_000

#: For how long the server remembers whose delivery an ended reservation was (`free.lua`).
REMEMBERED_MS = 60_000

OPTIONS = ("unique_for", "unique_until")

#: The option with the key, where that is not `idempotency_key`.
UNIQUE_KEY = "unique_key"


class Until(StrEnum):
    """When the next message with the same key may be sent: the option `unique_until`."""

    STARTED = "started"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """What an actor or a message asks for."""

    unique_for_ms: int
    until: Until

    @classmethod
    def of(
        cls, message_options: Mapping[str, Any], actor_options: Mapping[str, Any]
    ) -> Uniqueness | None:
        """Read the options; None when neither is given. The message's win.

        Raises:
            InvalidOption: Naming the option, its value and what is allowed.
        """
        unique_for = message_options.get("unique_for")
        until = message_options.get("unique_until")
        if unique_for is None:
            unique_for = actor_options.get("unique_for")
        if until is None:
            until = actor_options.get("unique_until")
        if unique_for is None and until is None:
            return None
        return cls(
            _checked_unique_for(DEFAULT_UNIQUE_FOR_MS if unique_for is None else unique_for),
            _checked_until(Until.DONE.value if until is None else until),
        )

    def as_options(self) -> dict[str, Any]:
        """The same, as a message's own options."""
        return {"unique_for": self.unique_for_ms, "unique_until": self.until.value}


@dataclass(frozen=True, slots=True)
class Reservation:
    """A unique key that a message is to have from when it is enqueued."""

    key: str
    #: Counted from when the message is due.
    unique_for_ms: int
    message_id: str
    #: Enqueued by its own delivery, which still has the key.
    follows_itself: bool = False

    def packed(self) -> str:
        """The same as a text, for the spool."""
        return json.dumps([self.key, self.unique_for_ms, self.message_id])

    @classmethod
    def unpacked(cls, text: str) -> Reservation:
        """The reservation that was `packed` as *text*."""
        key, unique_for_ms, message_id = json.loads(text)
        return cls(key, unique_for_ms, message_id)


def unique_for_of(options: Mapping[str, Any]) -> int:
    """What a message's own options ask for, wherever it comes from; the default if they do not."""
    try:
        return _checked_unique_for(options.get("unique_for"))
    except InvalidOption:
        return DEFAULT_UNIQUE_FOR_MS


def _checked_unique_for(value: Any) -> int:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not 1 <= value <= LONGEST_UNIQUE_FOR_MS:
        allowed = f"a whole number of milliseconds from 1 to {LONGEST_UNIQUE_FOR_MS}"
        raise InvalidOption.of("unique_for", value, allowed)
    return int(value)


def _checked_until(value: Any) -> Until:
    if isinstance(value, str) and value in set(Until):
        return Until(value)
    allowed = " or ".join(repr(until.value) for until in Until)
    raise InvalidOption.of("unique_until", value, allowed)
