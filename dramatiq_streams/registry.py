"""Which queues a namespace has, told by every process that enqueues to one or reads it.

Nothing on the main path asks; operators' commands do, because they never walk the keyspace.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dramatiq.errors import BrokerConnectionError
from dramatiq.logging import get_logger

from .calls import Runs
from .errors import StreamsError
from .keys import registry_key
from .lanes import DEFAULT_LANES
from .options import DEFAULT_LEASE_MS


@dataclass(frozen=True, slots=True)
class Registration:
    """One queue, as the process that used it last has told."""

    queue_name: str
    #: Highest first.
    lanes: tuple[str, ...] = tuple(DEFAULT_LANES)
    lease_ms: int = DEFAULT_LEASE_MS

    @classmethod
    def parse(cls, queue_name: str, text: bytes) -> Registration:
        """Read what `packed` wrote; what is missing or malformed has its default."""
        try:
            told = json.loads(text)
            lanes, lease_ms = told["lanes"], told["lease"]
        except (ValueError, TypeError, LookupError):
            return cls(queue_name)
        is_sane = isinstance(lanes, list) and lanes and all(isinstance(x, str) for x in lanes)
        if not is_sane or not isinstance(lease_ms, int):
            return cls(queue_name)
        return cls(queue_name, tuple(lanes), lease_ms)

    def packed(self) -> str:
        """The form in which it is kept."""
        return json.dumps({"lanes": self.lanes, "lease": self.lease_ms}, separators=(",", ":"))


class Registry:
    """The queues of one namespace."""

    def __init__(self, runs: Runs, namespace: str) -> None:
        self.logger = get_logger(__name__, type(self))
        self._runs = runs
        self._key = registry_key(namespace)
        self._introduced: set[str] = set()
        self._introducing = threading.Lock()

    def queues(self) -> list[Registration]:
        """Every queue that was ever used, by name."""
        flat: list[bytes] = self._runs.execute("HGETALL", self._key)
        told = dict(zip(flat[::2], flat[1::2], strict=True))
        found = [
            Registration.parse(name.decode(errors="backslashreplace"), text)
            for name, text in told.items()
        ]
        return sorted(found, key=lambda registration: registration.queue_name)

    def note(self, registrations: Iterable[Registration]) -> None:
        """Write *registrations*, over what was there."""
        fields: list[Any] = []
        for registration in registrations:
            fields += registration.queue_name, registration.packed()
        if fields:
            self._runs.execute("HSET", self._key, *fields)

    def note_new(self, registration: Registration) -> None:
        """Write *registration*, unless its queue is there: what a broker has told is better."""
        if self._runs.execute("HGET", self._key, registration.queue_name) is None:
            self.note([registration])

    def has_introduced(self, queue_name: str) -> bool:
        """Whether `introduce` has written it."""
        return queue_name in self._introduced

    def introduce(self, registration: Registration) -> None:
        """Write *registration*, once in the life of this object. Never fails for the server's sake.

        It comes after a message was stored, whose sender is not to hear of this.
        """
        name = registration.queue_name
        if self.has_introduced(name):
            return
        # One thread tries; the others have better things to do.
        if not self._introducing.acquire(blocking=False):
            return
        try:
            self.note([registration])
            self._introduced.add(name)
        except (BrokerConnectionError, StreamsError) as error:
            # The next message tries again, and every consumer writes it once a minute.
            self.logger.debug("Queue %r is not in the registry yet: %s", name, error)
        finally:
            self._introducing.release()
