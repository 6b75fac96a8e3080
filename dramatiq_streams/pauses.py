"""Paused queues: what waits goes on waiting, what runs runs to its end.

A pause is one key on the server. Reads obey it, and while it is there no consumer can block: the
group that each blocking read names is missing.
"""

from __future__ import annotations

from .calls import Runs
from .keys import GROUP
from .order_scripts import OrderScripts
from .scope import Scope


class Pauses:
    """The pauses of every queue in a scope."""

    def __init__(self, runs: Runs, scope: Scope) -> None:
        self._scripts = OrderScripts(runs)
        self._scope = scope

    def pause(self, queue_name: str) -> bool:
        """Deliver nothing of *queue_name* from now on; False when it was paused before."""
        keys = self._scope.keys(queue_name)
        return self._scripts.pause(paused=keys.paused, wake=keys.wake, group=GROUP) == 1

    def resume(self, queue_name: str) -> bool:
        """Let *queue_name* go on; False when it was not paused."""
        keys = self._scope.keys(queue_name)
        return self._scripts.resume(paused=keys.paused, wake=keys.wake, group=GROUP) == 1
