"""What a queue is meant to be: lists and numbers, no Redis (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dramatiq_streams.keys import RELEASED
from dramatiq_streams.messages import Entry


@dataclass(slots=True, eq=False)
class Item:
    """A message in a lane: waiting, or pending with `holder`."""

    body: str
    holder: str | None = None
    deliveries: int = 0
    entry_id: str = ""
    #: Whether its lease has run out.
    is_expired: bool = False


@dataclass(slots=True)
class State:
    """All that a server holds of a queue, comparable."""

    lanes: list[list[str]]
    #: For each lane: entry -> holder and deliveries.
    pending: list[dict[str, tuple[str, int]]]
    #: Delivery id -> lane, body and eta.
    delayed: dict[str, tuple[int, str, int]]
    #: Body, reason and deliveries, oldest first.
    dead: list[tuple[str, str, int]]

    def bodies(self) -> Counter[str]:
        """How often each message is in any place."""
        found = Counter(body for lane in self.lanes for body in lane)
        found.update(body for _, body, _ in self.delayed.values())
        found.update(body for body, _, _ in self.dead)
        return found


@dataclass(slots=True)
class QueueModel:
    """One queue; every method does what the room's method of that name promises."""

    lanes: list[list[Item]]
    delayed: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    dead: list[tuple[str, str, int]] = field(default_factory=list)
    #: Messages that are done: acknowledged, or purged.
    done: list[str] = field(default_factory=list)
    enqueued: list[str] = field(default_factory=list)

    @classmethod
    def empty(cls, lane_count: int) -> QueueModel:
        """A queue without a message."""
        return cls([[] for _ in range(lane_count)])

    @property
    def size(self) -> int:
        """How many messages are not done."""
        return sum(map(len, self.lanes)) + len(self.delayed)

    @property
    def has_new(self) -> bool:
        """Whether a message waits that was never delivered."""
        return any(item.holder is None for lane in self.lanes for item in lane)

    def enqueue(self, lane: int, body: str) -> None:
        """Append to a lane."""
        self.enqueued.append(body)
        self._append(lane, body)

    def delay(self, lane: int, body: str, delivery_id: str, eta: int) -> None:
        """Hold back."""
        self.enqueued.append(body)
        self.delayed[delivery_id] = (lane, body, eta)

    def forward(self, now_ms: int) -> int:
        """Move what is due to its lane, earliest first."""
        due = sorted(
            (eta, delivery_id) for delivery_id, (_, _, eta) in self.delayed.items() if eta <= now_ms
        )
        for _, delivery_id in due:
            lane, body, _ = self.delayed.pop(delivery_id)
            self._append(lane, body)
        return len(due)

    def read(self, consumer: str, budget: int, shares: Sequence[int]) -> list[tuple[int, Item]]:
        """Deliver: each lane its share, then the highest lanes; in a lane the released first."""
        taken: list[list[Item]] = [[] for _ in self.lanes]
        for wanted in (shares, [budget] * len(self.lanes)):
            for index, most in enumerate(wanted):
                count = min(most, budget - sum(map(len, taken)))
                taken[index] += self._take(index, consumer, count)
        return [(index + 1, item) for index, found in enumerate(taken) for item in found]

    def read_blocking(self, consumer: str) -> list[tuple[int, Item]]:
        """Deliver at most one new message of each lane."""
        found = []
        for index, lane in enumerate(self.lanes):
            new = [item for item in lane if item.holder is None][:1]
            found += [(index + 1, self._deliver(item, consumer)) for item in new]
        return found

    def holds(self, consumer: str, entry: Entry) -> bool:
        """Whether *consumer* still holds this very delivery."""
        return self._held(consumer, entry) is not None

    def acknowledge(self, consumer: str, acks: Iterable[Entry]) -> list[Entry]:
        """Remove what is held; returns the rest. All are judged before any is removed."""
        judged = [(ack, self._held(consumer, ack)) for ack in acks]
        for _, item in judged:
            if item is not None and self._remove(item):
                self.done.append(item.body)
        return [ack for ack, item in judged if item is None]

    def reject(self, consumer: str, entry: Entry, reason: str) -> bool:
        """Move to the dead letters."""
        item = self._held(consumer, entry)
        if item is not None:
            self._bury(item, reason)
        return item is not None

    def hand_over(
        self, consumer: str, entry: Entry, lane: int, delivery_id: str, eta: int | None
    ) -> bool:
        """Replace a delivery by its retry; *eta* None for no delay."""
        item = self._held(consumer, entry)
        if item is None:
            return False
        self._remove(item)
        if eta is None:
            self._append(lane, item.body)
        else:
            self.delayed[delivery_id] = (lane, item.body, eta)
        return True

    def release(self, consumer: str, entries: Iterable[Entry]) -> int:
        """Give back; none of it counts as delivered."""
        count = 0
        for entry in entries:
            item = self._held(consumer, entry)
            if item is not None:
                self._give_back(item)
                count += 1
        return count

    def release_unheld(self, consumer: str, held: Iterable[Entry]) -> int:
        """Give back what *consumer* has and does not know of."""
        known = {(entry.lane, entry.entry_id) for entry in held}
        unheld = [
            item
            for index, lane in enumerate(self.lanes)
            for item in lane
            if item.holder == consumer and (index + 1, item.entry_id) not in known
        ]
        for item in unheld:
            self._give_back(item)
        return len(unheld)

    def expire(self, holder: str) -> list[tuple[int, str]]:
        """Let the leases of *holder* run out; returns lane and id of each."""
        found = []
        for index, lane in enumerate(self.lanes):
            for item in lane:
                if item.holder == holder:
                    item.is_expired = True
                    found.append((index + 1, item.entry_id))
        return found

    def extend(self, consumer: str, entries: Iterable[Entry]) -> list[Entry]:
        """Renew what is held; returns what is lost."""
        lost = []
        for entry in entries:
            item = self._held(consumer, entry)
            if item is None:
                lost.append(entry)
            else:
                item.is_expired = False
        return lost

    def recover(self, max_deliveries: int) -> tuple[int, int]:
        """Free what has expired, or bury it; returns how many of each."""
        expired = [item for lane in self.lanes for item in lane if item.is_expired]
        freed = sum(
            item.holder != RELEASED and item.deliveries < max_deliveries for item in expired
        )
        for item in expired:
            if item.deliveries < max_deliveries:
                item.holder, item.is_expired = RELEASED, False
            else:
                self._bury(item, "max_deliveries")
        buried = sum(item.deliveries >= max_deliveries for item in expired)
        return freed, buried

    def purge(self) -> int:
        """Drop everything."""
        count = self.size
        self.done += self.state().bodies().elements()
        for lane in self.lanes:
            lane.clear()
        self.delayed.clear()
        self.dead.clear()
        return count

    def state(self) -> State:
        """What a server should hold."""
        return State(
            lanes=[[item.body for item in lane] for lane in self.lanes],
            pending=[
                {
                    item.entry_id: (item.holder, item.deliveries)
                    for item in lane
                    if item.holder is not None
                }
                for lane in self.lanes
            ],
            delayed=dict(self.delayed),
            dead=list(self.dead),
        )

    def _append(self, lane: int, body: str) -> None:
        self.lanes[lane - 1].append(Item(body))

    def _take(self, index: int, consumer: str, count: int) -> list[Item]:
        lane = self.lanes[index]
        free = [item for item in lane if item.holder == RELEASED]
        free += [item for item in lane if item.holder is None]
        return [self._deliver(item, consumer) for item in free[:count]]

    def _deliver(self, item: Item, consumer: str) -> Item:
        item.holder, item.is_expired = consumer, False
        item.deliveries += 1
        return item

    def _give_back(self, item: Item) -> None:
        item.holder, item.is_expired = RELEASED, False
        item.deliveries -= 1

    def _held(self, consumer: str, entry: Entry) -> Item | None:
        for item in self.lanes[entry.lane - 1]:
            if item.entry_id == entry.entry_id:
                is_held = (item.holder, item.deliveries) == (consumer, entry.deliveries)
                return item if is_held else None
        return None

    def _bury(self, item: Item, reason: str) -> None:
        self._remove(item)
        self.dead.append((item.body, reason, item.deliveries))

    def _remove(self, item: Item) -> bool:
        for lane in self.lanes:
            if item in lane:
                lane.remove(item)
                return True
        return False
