"""Every Redis key, as pure functions of the namespace and the queue.

A queue has one or more shards. All keys of a shard carry the same hash tag
`T = {namespace:queue:shard}`, so that each script touches one slot of a cluster.

| key | type | holds |
|---|---|---|
| `T:lane:<lane>` | stream | one entry per message: `m`, the encoded message; `u`, its reservation |
| `T:delayed` | zset | delivery id, scored by its eta in server milliseconds |
| `T:delayed:messages` | hash | delivery id -> lane, a colon, its reservation, the encoded message |
| `T:dead` | stream | dead letters: `m`, `reason`, `error`, `lane`, `entry`, `deliveries`, `u` |
| `T:dead:expiries` | zset | dead letter, scored by when it is dropped in server milliseconds |
| `T:consumers` | zset | consumer, scored by its last heartbeat in server milliseconds |
| `T:connections` | hash | consumer -> the ids of its connections to the server |
| `T:host:<host>` | hash | consumer -> pid and start time of its process; expires with its host |
| `T:wake` | stream | at most one entry: wakes one blocked consumer, so that it reads anew |
| `T:paused` | string | since when the queue is paused, in server milliseconds |
| `T:cancelled` | zset | lane, colon and entry of what is to be dropped, scored by the last look |
| `T:spools` | hash | spool -> its last row that was taken in; expires |
| `T:unique` | zset | unique key, scored by when its reservation ends in server milliseconds |
| `T:unique:messages` | hash | unique key -> token, colon, the message that has it; or token, dash |
| `T:counts` | hash | what was counted: `cancelled` |
| `{namespace:claims:<name>}` | hash | digest of a claimed key -> owner and expiry; expires |
| `{namespace:claims:<name>}:cursor` | string | where to look on for expired claims; expires |
| `{namespace:claims:<name>}:bloom` | string | the bits of a Bloom filter |
| `{namespace:<prefix>}:record:<key>` | hash | `state`, `token`, `owner`, times and more of a key |
| `{namespace:<prefix>}:running` | zset | idempotency key, scored by when its holder's lease ends |
| `{namespace:<prefix>}:lock:<key>` | string | on each lock server: who holds the key; expires |
| `{namespace:queues}` | hash | queue -> its lanes and lease, in JSON, from whoever uses it |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

#: The consumer group on every stream.
GROUP = "workers"

#: The consumer that owns entries which nobody works on: requeued, or recovered from a dead worker.
#: They keep their place in the stream; whoever reads next takes them first.
RELEASED = "released"

#: The field of an entry that holds the encoded message.
MESSAGE_FIELD = b"m"


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """The keys of one shard of one queue."""

    lanes: tuple[str, ...]
    delayed: str
    delayed_messages: str
    dead: str
    dead_expiries: str
    consumers: str
    connections: str
    wake: str
    spools: str
    paused: str
    cancelled: str
    counts: str
    unique: str
    unique_messages: str
    tag: str

    def host(self, host_id: str) -> str:
        """The registry of the consumers on one host."""
        return f"{self.tag}:host:{host_id}"


@lru_cache(maxsize=4096)
def queue_keys(
    namespace: str, queue_name: str, lanes: tuple[str, ...], *, shard: int = 0
) -> QueueKeys:
    """The keys of *queue_name*, its lanes in the order given."""
    tag = f"{{{namespace}:{queue_name}:{shard}}}"
    return QueueKeys(
        lanes=tuple(f"{tag}:lane:{lane}" for lane in lanes),
        delayed=f"{tag}:delayed",
        delayed_messages=f"{tag}:delayed:messages",
        dead=f"{tag}:dead",
        dead_expiries=f"{tag}:dead:expiries",
        consumers=f"{tag}:consumers",
        connections=f"{tag}:connections",
        wake=f"{tag}:wake",
        spools=f"{tag}:spools",
        paused=f"{tag}:paused",
        cancelled=f"{tag}:cancelled",
        counts=f"{tag}:counts",
        unique=f"{tag}:unique",
        unique_messages=f"{tag}:unique:messages",
        tag=tag,
    )


def registry_key(namespace: str) -> str:
    """The key that lists the queues of *namespace*."""
    return f"{{{namespace}:queues}}"


@dataclass(frozen=True, slots=True)
class ClaimsKeys:
    """The keys of a set of claims."""

    claims: str
    cursor: str


def claims_keys(namespace: str, name: str) -> ClaimsKeys:
    """The keys of the claims called *name*."""
    tag = f"{{{namespace}:claims:{name}}}"
    return ClaimsKeys(claims=tag, cursor=f"{tag}:cursor")


def bloom_key(namespace: str, name: str) -> str:
    """The key of the Bloom filter called *name*."""
    return f"{{{namespace}:claims:{name}}}:bloom"


@dataclass(frozen=True, slots=True)
class RecordKeys:
    """The keys of `Idempotency` middleware with one prefix."""

    tag: str

    @property
    def running(self) -> str:
        """The index of what runs."""
        return f"{self.tag}:running"

    def record(self, key: str) -> str:
        """The record of *key*."""
        return f"{self.tag}:record:{key}"

    def lock(self, key: str) -> str:
        """The lock of *key*, on each lock server."""
        return f"{self.tag}:lock:{key}"


def record_keys(namespace: str, prefix: str) -> RecordKeys:
    """The keys of `Idempotency(key_prefix=prefix)`."""
    return RecordKeys(f"{{{namespace}:{prefix}}}")
