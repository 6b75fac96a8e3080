"""The scripts of a migration, each as a method; `adopt` runs on the target, the others not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..scripts import Scripts


class MigrationScripts(Scripts):
    """All scripts of the broker, and those of a migration."""

    def adopt(
        self,
        *,
        wake: str,
        delayed: str,
        delayed_messages: str,
        lane: str,
        dead: str,
        spools: str,
        source: str | bytes,
        row: int,
        previous: int,
        lane_name: str,
        message: bytes,
        eta: int,
        reason: str,
        error: str,
        ttl: int,
    ) -> int:
        """Run `adopt.lua`."""
        keys = [wake, delayed, delayed_messages, lane, dead, spools]
        place = [source, row, previous, lane_name]
        return int(self._run("adopt", keys, [*place, message, eta, reason, error, ttl]))

    def confirm(self, *, transit: str, entries: Sequence[bytes]) -> int:
        """Run `confirm.lua`."""
        return int(self._run("confirm", [transit], entries))

    def depart(
        self,
        *,
        place: str,
        bodies: str,
        transit: str,
        heartbeats: str,
        kind: str,
        worker: str,
        deadline: int,
        target: str,
        source: str,
        row: int,
        messages: Sequence[Any],
    ) -> int:
        """Run `depart.lua`."""
        keys = [place, bodies, transit, heartbeats]
        reader = [kind, worker, deadline, target, source, row]
        return int(self._run("depart", keys, [*reader, *messages]))
