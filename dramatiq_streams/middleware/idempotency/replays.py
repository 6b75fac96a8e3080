"""Results of actors, kept in a record and given to the callers of duplicates.

They are encoded by the encoder of the result backend, by default dramatiq's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from dramatiq.actor import Actor
from dramatiq.broker import MessageProxy
from dramatiq.logging import get_logger
from dramatiq.middleware import Middleware
from dramatiq.results import Results
from dramatiq.results.backend import ResultBackend

#: Larger results are not kept: their duplicates are skipped.
REPLAY_LIMIT = 64 * 1024

_logger = get_logger(__name__)


class Broker(Protocol):
    """What is needed of a broker."""

    middleware: list[Middleware]

    def get_actor(self, actor_name: str) -> Actor[Any, Any]:
        """An actor by its name."""


@dataclass(frozen=True, slots=True)
class Replays:
    """The results of one message's actor; only where its results are stored."""

    backend: ResultBackend
    ttl_ms: int

    @classmethod
    def of(cls, broker: Broker, message: MessageProxy) -> Replays | None:
        """None when the result of *message* is not stored, so that nobody can ask for it."""
        results = results_of(broker.middleware)
        if results is None:
            return None
        options = broker.get_actor(message.actor_name).options | message.options
        if not options.get("store_results", results.store_results):
            return None
        return cls(results.backend, options.get("result_ttl", results.result_ttl))

    def encode(self, result: Any) -> bytes | None:
        """*result* as it is kept; None if it is too large, or cannot be encoded."""
        try:
            encoded = self.backend.encoder.encode({"result": result})
        except Exception as error:
            _logger.warning("A result cannot be kept for duplicates: %s", error)
            return None
        if len(encoded) > REPLAY_LIMIT:
            _logger.warning(
                "A result of %d bytes is not kept for duplicates: more than %d are too many.",
                len(encoded),
                REPLAY_LIMIT,
            )
            return None
        return encoded

    def replay(self, message: MessageProxy, encoded: bytes) -> None:
        """Store what was kept as the result of *message*."""
        result = self.backend.encoder.decode(encoded)["result"]
        self.backend.store_result(message, result, self.ttl_ms)


def results_of(middleware: Iterable[Middleware]) -> Results | None:
    """The middleware that stores results, if it is among *middleware*."""
    return next((each for each in middleware if isinstance(each, Results)), None)


def silence(message: MessageProxy) -> None:
    """Keep `Results` from storing None for *message*, which is skipped here."""
    message.options["store_results"] = False
