"""The scripts of dead letters: one typed method for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .calls import ScriptCalls, encoded


class LetterScripts(ScriptCalls):
    """What is run for a message that was given up on."""

    def expire_letters(
        self,
        *,
        dead: str,
        dead_expiries: str,
        ttl: int,
        ttls: Mapping[str, int],
        most: int,
        limit: int,
        after: str | bytes,
    ) -> tuple[int, int, bytes]:
        """Run `expire_letters.lua`."""
        arguments = [ttl, encoded(ttls), most, limit, after]
        expired, excess, last = self._run("expire_letters", [dead, dead_expiries], arguments)
        return expired, excess, last

    def redrive(
        self,
        *,
        dead: str,
        dead_expiries: str,
        lane: str,
        unique: str,
        unique_messages: str,
        letter: str,
        message: bytes,
        token: str,
        message_id: str,
        unique_for: int,
    ) -> list[Any]:
        """Run `redrive.lua`."""
        keys = [dead, dead_expiries, lane, unique, unique_messages]
        return self._run("redrive", keys, [letter, message, token, message_id, unique_for])

    def reject(
        self,
        *,
        lane: str,
        dead: str,
        dead_expiries: str,
        unique: str,
        unique_messages: str,
        group: str,
        consumer: str,
        entry: str,
        deliveries: int,
        lane_name: str,
        message: bytes,
        reason: str,
        error: str,
        ttl: int,
        most: int,
        is_unique: int,
    ) -> int:
        """Run `reject.lua`."""
        keys = [lane, dead, dead_expiries, unique, unique_messages]
        holder = [group, consumer, entry, deliveries]
        letter = [lane_name, message, reason, error, ttl, most, is_unique]
        return self._run("reject", keys, [*holder, *letter])

    def remove_letters(self, *, dead: str, dead_expiries: str, letters: Sequence[str]) -> int:
        """Run `remove_letters.lua`."""
        return self._run("remove_letters", [dead, dead_expiries], letters)
