"""Where dramatiq's RedisBroker keeps messages (pure); the keys are those of its `dispatch.lua`.

| key | type | holds |
|---|---|---|
| `NAMESPACE:QUEUE` | list | ids of messages, oldest first |
| `NAMESPACE:QUEUE.msgs` | hash | id -> message: those that wait, and those that workers have |
| `NAMESPACE:QUEUE.DQ`, `.DQ.msgs` | the same | delayed messages |
| `NAMESPACE:QUEUE.XQ` | zset | ids of dead messages, scored by when they died |
| `NAMESPACE:QUEUE.XQ.msgs` | hash | id -> dead message |
| `NAMESPACE:__acks__.WORKER.QUEUE` | set | ids that a worker has; of `QUEUE.DQ` too |
| `NAMESPACE:__heartbeats__` | zset | worker or sender -> its last command, in ms by its own clock |
| `NAMESPACE:__transit__:QUEUE` | stream | ours: what is on its way to a StreamsBroker |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dramatiq.common import dq_name, q_name, xq_name

from ..errors import InvalidOption
from ..options import checked_queue_name

_BODIES = ".msgs"
_TRANSIT = "__transit__:"


class State(StrEnum):
    """What a message was to RedisBroker."""

    WAITING = "waiting"
    DELAYED = "delayed"
    DEAD = "dead"


class Kind(StrEnum):
    """What the ids of some messages are kept in."""

    LIST = "list"
    ZSET = "zset"
    SET = "set"
    #: The bodies themselves: of messages whose ids are nowhere else.
    HASH = "hash"


@dataclass(frozen=True, slots=True)
class Place:
    """Some messages of one queue, all in one state."""

    state: State
    kind: Kind
    ids: str
    bodies: str
    #: Who has them, if that matters: they stay where they are while it lives.
    worker: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """The keys of one namespace of RedisBroker."""

    namespace: str

    @property
    def heartbeats(self) -> str:
        """Every process that ever did anything, and when it last did."""
        return f"{self.namespace}:__heartbeats__"

    @property
    def patterns(self) -> tuple[str, str]:
        """What the keys of all queues look like, to SCAN."""
        escaped = "".join(f"\\{c}" if c in "*?[]\\^" else c for c in self.namespace)
        return f"{escaped}:*{_BODIES}", f"{escaped}:{_TRANSIT}*"

    def transit(self, queue_name: str) -> str:
        """What is on its way."""
        return f"{self.namespace}:{_TRANSIT}{queue_name}"

    def queue_of(self, key: str) -> str | None:
        """The queue that *key*, which matches a pattern, belongs to; None if that is not ours."""
        name = key.removeprefix(f"{self.namespace}:").removeprefix(_TRANSIT)
        name = q_name(name.removesuffix(_BODIES))
        try:
            return checked_queue_name(name)
        except InvalidOption:
            return None  # of another namespace that begins like this one

    def waiting(self, queue_name: str) -> Place:
        """What no worker has taken yet."""
        return self._queue(State.WAITING, Kind.LIST, queue_name)

    def delayed(self, queue_name: str) -> Place:
        """What is not due yet, and no worker has taken to wait for it."""
        return self._queue(State.DELAYED, Kind.LIST, dq_name(queue_name))

    def dead(self, queue_name: str) -> Place:
        """What was given up on."""
        return self._queue(State.DEAD, Kind.ZSET, xq_name(queue_name))

    def held(self, place: Place, worker: str) -> Place:
        """What *worker* has taken from *place*."""
        name = place.ids.removeprefix(f"{self.namespace}:")
        acks = f"{self.namespace}:__acks__.{worker}.{name}"
        return Place(place.state, Kind.SET, acks, place.bodies, worker)

    def _queue(self, state: State, kind: Kind, name: str) -> Place:
        key = f"{self.namespace}:{name}"
        return Place(state, kind, key, f"{key}{_BODIES}")
