"""The scripts of idempotency records: one typed method for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...calls import ScriptCalls, encoded


class RecordScripts(ScriptCalls):
    """What is run on the record of one key."""

    def record_finish(
        self,
        *,
        record: str,
        running: str,
        key: str,
        token: int,
        state: str,
        arguments: str,
        message: str,
        result: bytes,
        ttl: int,
    ) -> int:
        """Run `record_finish.lua`."""
        outcome = [key, token, state, arguments, message, result, ttl]
        return self._run("record_finish", [record, running], outcome)

    def record_keep(
        self, *, running: str, records: Sequence[str], lease: int, held: Iterable[Any]
    ) -> list[int]:
        """Run `record_keep.lua`."""
        return self._run("record_keep", [running, *records], [lease, encoded(held)])

    def record_look(self, *, record: str, arguments: str, message: str, ttl: int) -> list[Any]:
        """Run `record_look.lua`."""
        return self._run("record_look", [record], [arguments, message, ttl])

    def record_reset(self, *, record: str, running: str, key: str) -> int:
        """Run `record_reset.lua`."""
        return self._run("record_reset", [record, running], [key])

    def record_start(
        self,
        *,
        record: str,
        running: str,
        key: str,
        arguments: str,
        message: str,
        owner: str,
        consumer: str,
        lease: int,
        ttl: int,
    ) -> list[Any]:
        """Run `record_start.lua`."""
        holder = [key, arguments, message, owner, consumer, lease, ttl]
        return self._run("record_start", [record, running], holder)
