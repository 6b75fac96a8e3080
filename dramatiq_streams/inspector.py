"""Read-only views of queues and their workers, for commands and for metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .condition import Condition
from .executor import Command, Executor
from .keys import GROUP, RELEASED, queue_keys
from .order_scripts import OrderScripts
from .registry import Registration

_HEAD = 9
_PER_LANE = 5


@dataclass(frozen=True, slots=True)
class LaneState:
    """One lane at one instant. Ages are those of messages in this lane, not of their deliveries."""

    lane: str
    #: Waiting: sent and not delivered yet, or given back.
    ready: int
    oldest_ready_age_ms: int | None
    #: Delivered to a worker and not settled.
    pending: int
    oldest_pending_age_ms: int | None
    #: First deliveries since the lane was made; None before Redis 7, and where it lost count.
    delivered: int | None


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue at one instant, by the server's clock."""

    queue: str
    server_ms: int
    #: How long it has been paused; None when it is not.
    paused_for_ms: int | None
    lanes: tuple[LaneState, ...]
    delayed: int
    #: Milliseconds until the next delayed message is due, 0 when it is overdue.
    next_due_ms: int | None
    dead: int
    oldest_dead_age_ms: int | None
    #: Cancelled messages that still have to be dropped.
    cancelling: int
    #: Cancelled messages that were dropped so far.
    cancelled: int
    #: Worker processes that gave a sign of life within a lease.
    consumers: int

    @property
    def ready(self) -> int:
        """Messages that wait, in all lanes."""
        return sum(lane.ready for lane in self.lanes)

    @property
    def pending(self) -> int:
        """Messages that workers hold, in all lanes."""
        return sum(lane.pending for lane in self.lanes)

    @property
    def delivered(self) -> int | None:
        """First deliveries so far, in all lanes; None where the server does not count them."""
        known = [lane.delivered for lane in self.lanes if lane.delivered is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class WorkerState:
    """One worker process on one queue."""

    consumer: str
    host: str
    pid: int | None
    queue: str
    #: Since its last heartbeat; None when it has never had one.
    heartbeat_age_ms: int | None
    #: Whether that is less than a lease.
    is_alive: bool
    #: Since it last fetched, or had no room to fetch, without an error, as of its last heartbeat;
    #: None when that has not been yet.
    attended_age_ms: int | None
    #: For how long its oldest unconfirmed acknowledgement had waited, as of its last heartbeat.
    unconfirmed_age_ms: int
    #: Messages that it holds, running or fetched ahead.
    pending: int
    #: Since it last read, claimed or extended something, as far as the server knows.
    idle_ms: int | None


class Inspector:
    """Looks at the queues of one namespace; changes nothing."""

    def __init__(self, executor: Executor, namespace: str) -> None:
        self._executor = executor
        self._scripts = OrderScripts(executor)
        self._namespace = namespace

    def queues(self, registrations: Sequence[Registration]) -> list[QueueState]:
        """The state of each queue, all in one round trip; each is one instant by itself."""
        commands = [self._inspect_command(registration) for registration in registrations]
        _, *replies = self._run([self._scripts.loading("inspect"), *commands])
        return [
            _queue_state(registration, reply)
            for registration, reply in zip(registrations, replies, strict=True)
        ]

    def workers(self, registration: Registration) -> list[WorkerState]:
        """Every worker process that the queue knows of, the dead ones too, by name."""
        keys = self._keys(registration)
        lanes = [("XINFO", "CONSUMERS", lane, GROUP) for lane in keys.lanes]
        heartbeats = ("ZRANGE", keys.consumers, 0, -1, "WITHSCORES")
        # Where nothing was ever read there is no lane, or it has no group.
        conditions = ("HGETALL", keys.connections)
        time, flat, told, *replies = self._executor.execute_many(
            [("TIME",), heartbeats, conditions, *lanes]
        )
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        beats = {
            name.decode(): max(now_ms - int(float(score)), 0)
            for name, score in zip(flat[::2], flat[1::2], strict=True)
        }
        known = [reply for reply in replies if not isinstance(reply, Exception)]
        pairs = zip(told[::2], told[1::2], strict=True)
        conditions_of = {name.decode(): Condition.parse(text.decode()) for name, text in pairs}
        return _worker_states(registration, beats, conditions_of, known)

    def _keys(self, registration: Registration) -> Any:
        return queue_keys(self._namespace, registration.queue_name, registration.lanes)

    def _inspect_command(self, registration: Registration) -> Command:
        keys = self._keys(registration)
        orders = [keys.paused, keys.cancelled, keys.counts]
        rest = [keys.delayed, keys.dead, keys.consumers, *keys.lanes]
        arguments = [GROUP, RELEASED, registration.lease_ms]
        return self._scripts.command("inspect", [*orders, *rest], arguments)

    def _run(self, commands: Sequence[Command]) -> list[Any]:
        replies = self._executor.execute_many(commands)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies


def _queue_state(registration: Registration, reply: list[int]) -> QueueState:
    now_ms, paused, marks, cancelled, delayed, eta, dead, oldest_dead, consumers = reply[:_HEAD]
    flat = zip(*[iter(reply[_HEAD:])] * _PER_LANE, strict=True)
    return QueueState(
        queue=registration.queue_name,
        server_ms=now_ms,
        paused_for_ms=_age(now_ms, paused),
        lanes=tuple(
            LaneState(
                lane=name,
                ready=max(ready, 0),
                oldest_ready_age_ms=_age(now_ms, oldest_ready),
                pending=pending,
                oldest_pending_age_ms=_age(now_ms, oldest_pending),
                delivered=None if delivered < 0 else delivered,
            )
            for name, (ready, oldest_ready, pending, oldest_pending, delivered) in zip(
                registration.lanes, flat, strict=True
            )
        ),
        delayed=delayed,
        next_due_ms=None if eta < 0 else max(eta - now_ms, 0),
        dead=dead,
        oldest_dead_age_ms=_age(now_ms, oldest_dead),
        cancelling=marks,
        cancelled=cancelled,
        consumers=consumers,
    )


def _age(now_ms: int, since_ms: int) -> int | None:
    return None if since_ms < 0 else max(now_ms - since_ms, 0)


def _worker_states(
    registration: Registration,
    beats: dict[str, int],
    conditions: dict[str, Condition],
    lanes: Iterable[list[Any]],
) -> list[WorkerState]:
    pending: dict[str, int] = dict.fromkeys(beats, 0)
    idle: dict[str, int] = {}
    for lane in lanes:
        for flat in lane:
            told = dict(zip(flat[::2], flat[1::2], strict=True))
            name = told[b"name"].decode()
            pending[name] = pending.get(name, 0) + told[b"pending"]
            idle[name] = min(idle.get(name, told[b"idle"]), told[b"idle"])
    pending.pop(RELEASED, None)
    return [
        WorkerState(
            consumer=name,
            **_place(name),
            queue=registration.queue_name,
            heartbeat_age_ms=beats.get(name),
            is_alive=beats.get(name, math.inf) <= registration.lease_ms,
            attended_age_ms=conditions.get(name, Condition()).attended_ms,
            unconfirmed_age_ms=conditions.get(name, Condition()).unconfirmed_ms,
            pending=held,
            idle_ms=idle.get(name),
        )
        for name, held in sorted(pending.items())
    ]


def _place(name: str) -> dict[str, Any]:
    host, _, rest = name.partition(":")
    pid = rest.partition(":")[0]
    return {"host": host, "pid": int(pid) if pid.isdecimal() else None}
