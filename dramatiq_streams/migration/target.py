"""A namespace of a StreamsBroker: where messages in transit arrive, each once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..executor import Command, Executor
from ..lanes import Lanes
from ..queues import SPOOL_TTL_MS
from ..registry import Registration, Registry
from ..scope import Scope
from .passages import Transit
from .scripts import MigrationScripts


class Target:
    """The namespace *namespace* on the server that *executor* reaches.

    Args:
        known: The queues that it has.
        lanes: Those of a queue that it has not yet.
    """

    def __init__(
        self, executor: Executor, namespace: str, *, known: Sequence[Registration], lanes: Lanes
    ) -> None:
        self.namespace = namespace
        self._executor = executor
        self._scripts = MigrationScripts(executor)
        self._registry = Registry(executor, namespace)
        self._known = {registration.queue_name: registration for registration in known}
        self._lanes = lanes

    def lanes(self, queue_name: str) -> Lanes:
        """The lanes of a queue."""
        known = self._known.get(queue_name)
        return self._lanes if known is None else Lanes.of(known.lanes)

    def introduce(self, queue_name: str) -> None:
        """Have the queue known, so that what arrives there can be seen."""
        if queue_name not in self._known:
            registration = Registration(queue_name, self.lanes(queue_name).names)
            self._registry.note([registration])
            self._known[queue_name] = registration

    def adopt(
        self, queue_name: str, messages: Sequence[Transit]
    ) -> tuple[list[int], Exception | None]:
        """Take in messages of one source, in order; what has come before changes nothing.

        Returns:
            For each, up to the first that the server refuses, 1, or 0 when it had come before; and
            why it refused that one.
        """
        previous = [0, *(message.row for message in messages)]
        commands = [
            self._command(queue_name, message, before)
            for message, before in zip(messages, previous, strict=False)
        ]
        replies = self._executor.execute_many([self._scripts.loading("adopt"), *commands])[1:]
        taken: list[int] = []
        for reply in replies:
            if isinstance(reply, Exception):
                return taken, reply
            taken.append(reply)
        return taken, None

    def _command(self, queue_name: str, message: Transit, previous: int) -> Command:
        scope = Scope(self.namespace, self.lanes(queue_name), "")
        keys, names = scope.keys(queue_name), scope.lanes.names
        passage = message.passage
        # The run that took it may have known other lanes.
        is_known = passage.lane in names
        lane = names.index(passage.lane) if is_known else scope.lanes.default_position - 1
        place = (keys.wake, keys.delayed, keys.delayed_messages, keys.lanes[lane])
        row: list[Any] = [message.source, message.row, previous, names[lane], passage.body]
        rest = [passage.eta, passage.reason, passage.error, SPOOL_TTL_MS]
        return self._scripts.command("adopt", [*place, keys.dead, keys.spools], [*row, *rest])
