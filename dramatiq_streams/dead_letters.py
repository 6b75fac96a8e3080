"""Messages given up on: kept with the reason, for `dead_message_ttl`."""

from __future__ import annotations

from enum import StrEnum

from .keys import GROUP
from .messages import Entry
from .scope import Scope
from .scripts import Runs, Scripts

#: Longer error texts are cut: the traceback is in the message's options.
ERROR_LENGTH = 2_000


class Reason(StrEnum):
    """Why a message is dead: the field `reason` of a dead letter."""

    FAILED = "failed"
    ACTOR_NOT_FOUND = "actor_not_found"
    UNDECODABLE = "undecodable"
    MAX_DELIVERIES = "max_deliveries"


class DeadLetters:
    """The dead letters of every queue in a scope."""

    def __init__(self, runs: Runs, scope: Scope, *, ttl_ms: int) -> None:
        self._runs = runs
        self._scripts = Scripts(runs)
        self._scope = scope
        self._ttl_ms = ttl_ms

    def reject(
        self, queue_name: str, entry: Entry, *, body: bytes | None, reason: Reason, error: str
    ) -> bool:
        """Move *entry* to the dead letters, with *body*, or as it is stored if that is None.

        Returns:
            False, and nothing has changed, when this consumer no longer holds *entry*.
        """
        keys = self._scope.keys(queue_name)
        done = self._scripts.reject(
            lane=keys.lanes[entry.lane - 1],
            dead=keys.dead,
            group=GROUP,
            consumer=self._scope.consumer,
            entry=entry.entry_id,
            deliveries=entry.deliveries,
            lane_name=self._scope.lanes.names[entry.lane - 1],
            message=body or b"",
            reason=reason.value,
            # Not every str can be sent: surrogates come from file names and foreign bodies.
            error=error[:ERROR_LENGTH].encode(errors="backslashreplace").decode(),
            ttl=self._ttl_ms,
        )
        return done == 1

    def expire(self, queue_name: str, *, now_ms: int) -> int:
        """Drop the dead letters that are older than the ttl at *now_ms*, server time."""
        oldest = max(now_ms - self._ttl_ms, 0)
        expired: int = self._runs.execute(
            "XTRIM", self._scope.keys(queue_name).dead, "MINID", "=", str(oldest)
        )
        return expired

    def server_ms(self) -> int:
        """The server's clock, in milliseconds since 1970."""
        seconds, microseconds = self._runs.execute("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000
