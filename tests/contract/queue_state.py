"""What the server holds of one queue, read past the broker; and messages to put there."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dramatiq.message import Message

from dramatiq_streams.keys import GROUP, RELEASED, queue_keys
from dramatiq_streams.lanes import DEFAULT_LANES


class Delivery(NamedTuple):
    """One pending entry."""

    consumer: str
    deliveries: int
    idle_ms: int


def new_message(*args: Any, queue: str = "default", actor: str = "work", **options: Any) -> Any:
    """A message that was not enqueued; its actor need not exist."""
    return Message(queue_name=queue, actor_name=actor, args=args, kwargs={}, options=options)


class QueueState:
    """One queue of one namespace, straight from the server."""

    def __init__(
        self,
        client: Any,
        namespace: str,
        queue_name: str = "default",
        *,
        lanes: tuple[str, ...] = tuple(DEFAULT_LANES),
    ) -> None:
        self.client = client
        self.keys = queue_keys(namespace, queue_name, lanes)
        self._names = lanes

    def lane(self, name: str) -> str:
        """The key of the lane called *name*."""
        return self.keys.lanes[self._names.index(name)]

    def entries(self, lane: str) -> list[Message[Any]]:
        """The messages in a lane, delivered or not, oldest first."""
        return [Message.decode(fields[b"m"]) for _, fields in self.client.xrange(self.lane(lane))]

    def messages(self) -> list[Message[Any]]:
        """The messages in all lanes, highest lane first."""
        return [message for name in self._names for message in self.entries(name)]

    def pending(self) -> dict[tuple[str, str], Delivery]:
        """What was delivered and not settled: lane and entry id -> who has it."""
        found = {}
        for name, key in zip(self._names, self.keys.lanes, strict=True):
            if not self.client.exists(key) or not self.client.xinfo_groups(key):
                continue
            for entry in self.client.xpending_range(key, GROUP, min="-", max="+", count=10_000):
                found[name, entry["message_id"].decode()] = Delivery(
                    entry["consumer"].decode(),
                    entry["times_delivered"],
                    entry["time_since_delivered"],
                )
        return found

    def held(self) -> dict[tuple[str, str], Delivery]:
        """The part of `pending` that a worker has: not given back, not recovered."""
        pending = self.pending().items()
        return {entry: delivery for entry, delivery in pending if delivery.consumer != RELEASED}

    def consumers(self) -> set[str]:
        """Every consumer that ever read from the queue."""
        found = set()
        for key in self.keys.lanes:
            for consumer in self.client.xinfo_consumers(key, GROUP):
                found.add(consumer["name"].decode())
        return found - {RELEASED}

    def delayed(self) -> list[tuple[int, Message[Any]]]:
        """The delayed messages with their eta in server milliseconds, earliest first."""
        found = []
        for delivery, eta in self.client.zrange(self.keys.delayed, 0, -1, withscores=True):
            _, body = self.client.hget(self.keys.delayed_messages, delivery).split(b":", 1)
            found.append((int(eta), Message.decode(body)))
        return found

    def dead(self) -> list[dict[str, bytes]]:
        """The fields of the dead letters, oldest first."""
        letters = self.client.xrange(self.keys.dead)
        return [{name.decode(): value for name, value in f.items()} for _, f in letters]

    def count(self) -> int:
        """How many messages there are, dead letters not counted."""
        return len(self.messages()) + self.client.zcard(self.keys.delayed)

    def add_raw(self, fields: Mapping[Any, Any], *, lane: str = "default") -> str:
        """Append an entry as a stranger might; its id."""
        return self.client.xadd(self.lane(lane), dict(fields)).decode()

    def now_ms(self) -> int:
        """The server's clock."""
        seconds, microseconds = self.client.time()
        return seconds * 1000 + microseconds // 1000
