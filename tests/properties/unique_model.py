"""What unique keys are meant to be: a table of who has which, and messages in places (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Place(StrEnum):
    """Where a message is."""

    WAITING = "waiting"
    DELAYED = "delayed"
    HELD = "held"
    DEAD = "dead"
    #: Done, cancelled, or purged.
    GONE = "gone"


@dataclass(slots=True, eq=False)
class Item:
    """One delivery of a message that has, or had, a unique key."""

    token: str
    key: str
    message_id: str
    place: Place
    deliveries: int = 0
    is_expired: bool = False


@dataclass(slots=True)
class UniqueModel:
    """The unique keys of one queue; every method does what the room promises."""

    items: list[Item] = field(default_factory=list)
    #: Key -> token of who has it.
    held: dict[str, str] = field(default_factory=dict)

    def at(self, *places: Place) -> list[Item]:
        """The messages in *places*, oldest first."""
        return [item for item in self.items if item.place in places]

    def holder(self, key: str) -> Item | None:
        """Whose message has *key*."""
        token = self.held.get(key)
        return next((item for item in reversed(self.items) if item.token == token), None)

    def enqueue(
        self, token: str, key: str, message_id: str, *, is_delayed: bool, follows: bool = False
    ) -> str:
        """Enqueue unless another has the key; returns the id of the message that has it, or ""."""
        holder = self.holder(key)
        if holder is not None and not (follows and holder.message_id == message_id):
            return holder.message_id
        place = Place.DELAYED if is_delayed else Place.WAITING
        self.items.append(Item(token, key, message_id, place))
        self.held[key] = token
        return ""

    def free(self, item: Item) -> None:
        """Free the key of *item*, if it is the one that has it."""
        if self.held.get(item.key) == item.token:
            del self.held[item.key]

    def end(self, item: Item, place: Place) -> None:
        """Move *item* to where it needs no key any more."""
        item.place = place
        self.free(item)

    def recover(self, max_deliveries: int) -> None:
        """Free what has expired, or bury it."""
        for item in self.at(Place.HELD):
            if item.is_expired:
                item.is_expired = False
                if item.deliveries < max_deliveries:
                    item.place = Place.WAITING
                else:
                    self.end(item, Place.DEAD)

    def redrive(self, item: Item, token: str, message_id: str) -> str:
        """Send a dead letter again; returns the id of the message that has its key, or ""."""
        holder = self.holder(item.key)
        if holder is not None:
            return holder.message_id
        item.token, item.message_id, item.place = token, message_id, Place.WAITING
        item.deliveries = 0
        self.held[item.key] = token
        return ""
