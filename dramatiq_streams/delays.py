"""Delayed messages: held on the server, on the server's clock; retries that replace their original.

Due messages are forwarded by whoever reads the queue, inside the read itself.
"""

from __future__ import annotations

from typing import Any

from .calls import Runs
from .keys import GROUP
from .messages import Entry, RetryHandOver
from .scope import Scope
from .scripts import Scripts


class Delays:
    """The delayed messages of every queue in a scope."""

    def __init__(self, runs: Runs, scope: Scope) -> None:
        self._scripts = Scripts(runs)
        self._scope = scope

    def add(
        self, queue_name: str, lane: int, body: bytes, *, delivery_id: str, delay_ms: int
    ) -> int:
        """Hold *body* back for *delay_ms*; returns its eta in server milliseconds.

        Repeating it with the same *delivery_id* adds nothing.
        """
        keys = self._scope.keys(queue_name)
        return self._scripts.delay(
            wake=keys.wake,
            delayed=keys.delayed,
            delayed_messages=keys.delayed_messages,
            delivery=delivery_id,
            lane_name=self._scope.lanes.names[lane - 1],
            message=body,
            delay=delay_ms,
        )

    def add_command(
        self, queue_name: str, lane: int, body: bytes, *, delivery_id: str, delay_ms: int
    ) -> tuple[Any, ...]:
        """The command of `add`, for a pipeline that begins with `loading_command`."""
        keys = self._scope.keys(queue_name)
        arguments = [delivery_id, self._scope.lanes.names[lane - 1], body, delay_ms]
        return self._scripts.command(
            "delay", [keys.wake, keys.delayed, keys.delayed_messages], arguments
        )

    def loading_command(self) -> tuple[Any, ...]:
        """Makes sure that the script of `add_command` is on the server."""
        return self._scripts.loading("delay")

    def hand_over(self, queue_name: str, entry: Entry, retry: RetryHandOver) -> bool:
        """Replace *entry* by *retry* in one step.

        Returns:
            False, and nothing has changed, when this consumer no longer holds *entry*.
        """
        keys = self._scope.keys(queue_name)
        done = self._scripts.hand_over(
            wake=keys.wake,
            delayed=keys.delayed,
            delayed_messages=keys.delayed_messages,
            source=keys.lanes[entry.lane - 1],
            target=keys.lanes[retry.lane - 1],
            group=GROUP,
            consumer=self._scope.consumer,
            entry=entry.entry_id,
            deliveries=entry.deliveries,
            delivery=retry.delivery_id,
            lane_name=self._scope.lanes.names[retry.lane - 1],
            message=retry.body,
            delay=-1 if retry.delay_ms is None else retry.delay_ms,
            is_unique=int(bool(entry.unique_until)),
        )
        return done == 1
