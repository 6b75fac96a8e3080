"""Whose commands, on which keys: what every room that talks to the server needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from .keys import QueueKeys, queue_keys
from .lanes import Lanes


@dataclass(frozen=True, slots=True)
class Scope:
    """A namespace with its lanes, seen by one consumer."""

    namespace: str
    lanes: Lanes
    consumer: str

    def keys(self, queue_name: str) -> QueueKeys:
        """The keys of *queue_name*."""
        return queue_keys(self.namespace, queue_name, self.lanes.names)
