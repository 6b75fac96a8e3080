"""Messages as JSON has them, and as a table shows them (pure)."""

from __future__ import annotations

import base64
from typing import Any

from dramatiq.errors import DecodeError
from dramatiq.message import Message

from dramatiq_streams.bodies import parsed
from dramatiq_streams.browsing import StoredMessage
from dramatiq_streams.letters import Letter


def message_view(stored: StoredMessage, *, now_ms: int, is_cancelled: bool) -> dict[str, Any]:
    """The fields of a message on its way."""
    message = _decoded(stored.body)
    made_ms = _made_ms(stored, message)
    return {
        "queue": stored.queue,
        "state": stored.state.value,
        "lane": stored.lane,
        "place": stored.place,
        **_fields(message, stored.body),
        "age_ms": None if made_ms is None else max(now_ms - made_ms, 0),
        "due_in_ms": None if stored.eta is None else stored.eta - now_ms,
        "deliveries": stored.deliveries,
        "consumer": stored.consumer,
        "idle_ms": stored.idle_ms,
        "is_cancelled": is_cancelled,
    }


def letter_view(letter: Letter, *, now_ms: int) -> dict[str, Any]:
    """The fields of a dead letter."""
    return {
        "queue": letter.queue,
        "letter": letter.letter_id,
        "died_ms": letter.died_ms,
        "age_ms": max(now_ms - letter.died_ms, 0),
        "reason": letter.reason,
        "error": letter.error,
        "lane": letter.lane,
        "deliveries": letter.deliveries,
        **_fields(letter.message, letter.body),
    }


def call(view: dict[str, Any]) -> str:
    """What a message calls, for people: `actor(1, key='value')`."""
    if view["message_id"] is None:
        return "(no message)"
    arguments = [repr(value) for value in view["args"]]
    arguments += [f"{name}={value!r}" for name, value in view["kwargs"].items()]
    return f"{view['actor']}({', '.join(arguments)})"


def _fields(message: Message[Any] | None, body: bytes) -> dict[str, Any]:
    if message is None:
        nothing = dict.fromkeys(("message_id", "actor", "args", "kwargs", "options", "sent_ms"))
        return {**nothing, "body": base64.b64encode(body).decode()}
    return {
        "message_id": message.message_id,
        "actor": message.actor_name,
        "args": list(message.args),
        "kwargs": message.kwargs,
        "options": message.options,
        "sent_ms": message.message_timestamp,
        "body": base64.b64encode(body).decode(),
    }


def _made_ms(stored: StoredMessage, message: Message[Any] | None) -> int | None:
    """When it came to where it is now; for a delayed one when it was sent."""
    if stored.eta is None:
        return int(stored.place.partition("-")[0])
    return None if message is None else int(message.message_timestamp)


def _decoded(body: bytes) -> Message[Any] | None:
    try:
        return parsed(body)
    except DecodeError:
        return None
