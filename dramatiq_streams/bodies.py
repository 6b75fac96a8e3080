"""Which messages dramatiq can handle, and which bodies hold one (pure).

dramatiq checks no field of a message. What it cannot handle ends a worker's thread, or loses the
message, long after it was sent: so both ends ask here first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dramatiq.errors import DecodeError
from dramatiq.message import Message

#: How deeply lists and dictionaries may be nested. Python gives up at 1,000, stack frames included,
#: and does so in a log call of dramatiq's that ends its thread; a pipeline has two per step.
MOST_NESTED = 500

#: Some 30,000 years after 1970.
LATEST_TIMESTAMP_MS = 10**15

_NUMBER = (int, float)
_FIELDS: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("queue_name", str),
    ("actor_name", str),
    ("args", tuple),
    ("kwargs", dict),
    ("options", dict),
    ("message_id", str),
    ("message_timestamp", _NUMBER),
)
_NAMES = ("queue_name", "actor_name", "message_id")


def parsed(body: bytes) -> Message[Any]:
    """The message that *body* holds.

    Raises:
        DecodeError: It is no message, or one that dramatiq cannot handle; the text says why.
    """
    message: Message[Any] = Message.decode(body)
    found = flaw(message) or too_deep(message, body)
    if found is not None:
        error = TypeError(found)
        raise DecodeError(f"The message is malformed: {error}.", body, error)
    return message


def flaw(message: Message[Any]) -> str | None:
    """What is wrong with the fields of *message*, None when nothing is."""
    if not _has_right_types(message):
        wrong = [name for name, kind in _FIELDS if not isinstance(getattr(message, name), kind)]
        return f"wrong type of {', '.join(wrong)}"
    for name in ("kwargs", "options"):
        keys = getattr(message, name)
        if keys and not all(isinstance(key, str) for key in keys):
            return f"a name in {name} is no text"
    for name in () if _has_plain_names(message) else _NAMES:
        if not is_text(getattr(message, name)):
            return f"{name} has half a character, a surrogate, which is not Unicode"
    # Not the other way round: a NaN is neither.
    if not 0 <= message.message_timestamp <= LATEST_TIMESTAMP_MS:
        return f"message_timestamp is not from 0 to {LATEST_TIMESTAMP_MS}"
    return None


def _has_right_types(message: Message[Any]) -> bool:
    """What `_FIELDS` says, in a tenth of the time."""
    return (
        isinstance(message.queue_name, str)
        and isinstance(message.actor_name, str)
        and isinstance(message.args, tuple)
        and isinstance(message.kwargs, dict)
        and isinstance(message.options, dict)
        and isinstance(message.message_id, str)
        and isinstance(message.message_timestamp, _NUMBER)
    )


def _has_plain_names(message: Message[Any]) -> bool:
    """What is true of nearly all that `is_text` allows."""
    return (
        message.queue_name.isascii()
        and message.actor_name.isascii()
        and message.message_id.isascii()
    )


def too_deep(message: Message[Any], body: bytes) -> str | None:
    """The flaw of a *message*, encoded as *body*, that is nested more than `MOST_NESTED` deep."""
    # Each level of JSON takes one of these; hardly any message has so many.
    if body.count(b"]") + body.count(b"}") <= MOST_NESTED:
        return None
    level: Iterable[Any] = (message.args, message.kwargs, message.options)
    for _ in range(MOST_NESTED):
        # By identity: what other encoders than JSON make may hold one list twice, or itself.
        level = {id(inner): inner for outer in level for inner in _inside(outer)}.values()
        if not level:
            return None
    return f"nested more than {MOST_NESTED} deep"


def is_text(value: str) -> bool:
    """Whether *value* is Unicode: JSON can hold half a character, which nothing else can."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _inside(value: object) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
