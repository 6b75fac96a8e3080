"""The scripts of unique keys: one typed method for each."""

from __future__ import annotations

from .calls import ScriptCalls


class UniqueScripts(ScriptCalls):
    """What is run for a message of which there may be only one."""

    def enqueue_unique(
        self,
        *,
        wake: str,
        delayed: str,
        delayed_messages: str,
        lane: str,
        unique: str,
        unique_messages: str,
        unique_key: str,
        ttl: int,
        message_id: str,
        again: int,
        delivery: str,
        lane_name: str,
        message: bytes,
        delay: int,
    ) -> bytes:
        """Run `enqueue_unique.lua`."""
        keys = [wake, delayed, delayed_messages, lane, unique, unique_messages]
        reservation = [unique_key, ttl, message_id, again]
        return self._run(
            "enqueue_unique", keys, [*reservation, delivery, lane_name, message, delay]
        )

    def expire_unique(self, *, unique: str, unique_messages: str, limit: int) -> int:
        """Run `expire_unique.lua`."""
        return self._run("expire_unique", [unique, unique_messages], [limit])

    def free_unique(
        self, *, unique: str, unique_messages: str, unique_key: str, message_id: str
    ) -> int:
        """Run `free_unique.lua`."""
        return self._run("free_unique", [unique, unique_messages], [unique_key, message_id])

    def start_unique(self, *, lane: str, unique: str, unique_messages: str, entry: str) -> int:
        """Run `start_unique.lua`."""
        return self._run("start_unique", [lane, unique, unique_messages], [entry])
