"""How long dead letters are kept, and how many of a queue (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dramatiq.actor import Actor
from dramatiq.message import Message

from .options import DEFAULT_DEAD_MESSAGE_TTL_MS, DEFAULT_MAX_DEAD_MESSAGES, is_dead_message_ttl

#: The option of brokers, actors and messages.
OPTION = "dead_message_ttl"


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """What a broker says of dead letters, and what its *actors* say of theirs."""

    ttl_ms: int = DEFAULT_DEAD_MESSAGE_TTL_MS
    #: How many are kept of a queue; the oldest have to go.
    most: int = DEFAULT_MAX_DEAD_MESSAGES
    actors: Mapping[str, Actor[Any, Any]] = field(default_factory=dict)

    def of(self, message: Message[Any] | None) -> int:
        """Milliseconds for *message*: its own option, or its actor's, or the broker's."""
        if message is None:
            return self.ttl_ms
        actor = self.actors.get(message.actor_name)
        for options in (message.options, actor.options if actor else {}):
            if is_dead_message_ttl(own := options.get(OPTION)):
                return own
        return self.ttl_ms

    def of_actors(self) -> dict[str, int]:
        """Milliseconds for the actors that have an option of their own, by name."""
        return {
            name: actor.options[OPTION]
            for name, actor in list(self.actors.items())
            if is_dead_message_ttl(actor.options.get(OPTION))
        }
