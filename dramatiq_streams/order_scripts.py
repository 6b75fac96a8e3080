"""The scripts of operators: one typed method for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .calls import ScriptCalls


class OrderScripts(ScriptCalls):
    """What is run to look at a queue, to pause it, and to cancel messages."""

    def cancel(
        self,
        *,
        lane: str,
        cancelled: str,
        unique: str,
        unique_messages: str,
        group: str,
        released: str,
        lane_name: str,
        entry: str,
    ) -> bytes:
        """Run `cancel.lua`."""
        keys = [lane, cancelled, unique, unique_messages]
        return self._run("cancel", keys, [group, released, lane_name, entry])

    def cancel_delayed(
        self,
        *,
        delayed: str,
        delayed_messages: str,
        counts: str,
        unique: str,
        unique_messages: str,
        delivery: str,
    ) -> int:
        """Run `cancel_delayed.lua`."""
        keys = [delayed, delayed_messages, counts, unique, unique_messages]
        return self._run("cancel_delayed", keys, [delivery])

    def inspect(
        self,
        *,
        paused: str,
        cancelled: str,
        counts: str,
        delayed: str,
        dead: str,
        consumers: str,
        lanes: Sequence[str],
        group: str,
        released: str,
        lease: int,
    ) -> list[Any]:
        """Run `inspect.lua`."""
        keys = [paused, cancelled, counts, delayed, dead, consumers, *lanes]
        return self._run("inspect", keys, [group, released, lease])

    def pause(self, *, paused: str, wake: str, group: str) -> int:
        """Run `pause.lua`."""
        return self._run("pause", [paused, wake], [group])

    def resume(self, *, paused: str, wake: str, group: str) -> int:
        """Run `resume.lua`."""
        return self._run("resume", [paused, wake], [group])
