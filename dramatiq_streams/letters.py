"""Dead letters as values, and which of them somebody wants (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dramatiq.errors import DecodeError
from dramatiq.message import Message

from .bodies import parsed

#: What Retries, the Worker and Idempotency have left in a message; without it, it begins anew.
SPENT_OPTIONS = (
    "retries",
    "traceback",
    "requeue_timestamp",
    "eta",
    "idempotency_deferrals",
    "idempotency_deliveries",
)

_COUNT = re.compile(r"[0-9]{1,18}\Z")


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter."""

    queue: str
    #: Its entry in the stream of dead letters.
    letter_id: str
    reason: str
    error: str
    lane: str
    deliveries: int
    body: bytes = field(repr=False)
    #: None when the body is no message, or written by an encoder that is not set here.
    message: Message[Any] | None = field(repr=False)
    #: The unique key that it had, and has again when it is redriven.
    unique_key: str | None = None

    @classmethod
    def parse(cls, queue_name: str, letter_id: bytes, fields: Mapping[bytes, bytes]) -> Letter:
        """Read an entry of the stream; a field that is not there is empty."""

        def text(name: bytes) -> str:
            return fields.get(name, b"").decode(errors="backslashreplace")

        body = fields.get(b"m", b"")
        deliveries = text(b"deliveries")
        return cls(
            queue=queue_name,
            letter_id=letter_id.decode(),
            reason=text(b"reason"),
            error=text(b"error"),
            lane=text(b"lane"),
            deliveries=int(deliveries) if _COUNT.match(deliveries) else 0,
            body=body,
            message=_decoded(body),
            unique_key=text(b"u").partition(":")[2] or None,
        )

    @property
    def died_ms(self) -> int:
        """When it was given up on, in server milliseconds."""
        return int(self.letter_id.partition("-")[0])

    def revived(self) -> bytes | None:
        """Its message encoded as if nothing had happened yet; None when it cannot be decoded."""
        if self.message is None:
            return None
        options = {k: v for k, v in self.message.options.items() if k not in SPENT_OPTIONS}
        fields = {**self.message.asdict(), "options": options}
        return Message(**fields).encode()


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters somebody wants: those that fulfil all that is given."""

    actors: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    #: Letter ids, or message ids.
    ids: frozenset[str] = frozenset()
    #: Server milliseconds.
    died_before_ms: int | None = None
    died_after_ms: int | None = None
    #: In the error, the traceback or the message itself; upper and lower case are the same.
    text: str = ""

    def accepts(self, letter: Letter) -> bool:
        """Whether *letter* is wanted."""
        message = letter.message
        names = {letter.letter_id} | ({message.message_id} if message else set())
        return (
            (not self.actors or (message is not None and message.actor_name in self.actors))
            and (not self.reasons or letter.reason in self.reasons)
            and (not self.ids or not self.ids.isdisjoint(names))
            and (self.died_before_ms is None or letter.died_ms < self.died_before_ms)
            and (self.died_after_ms is None or letter.died_ms >= self.died_after_ms)
            and (not self.text or self.text.casefold() in _text_of(letter).casefold())
        )


def _decoded(body: bytes) -> Message[Any] | None:
    try:
        return parsed(body)
    except DecodeError:
        return None


def _text_of(letter: Letter) -> str:
    traceback = str(letter.message.options.get("traceback", "")) if letter.message else ""
    return "\n".join((letter.error, traceback, letter.body.decode(errors="backslashreplace")))
