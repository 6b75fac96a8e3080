"""What an actor may ask of the claim that it runs under: its fencing token, and whether it is lost.

Context variables: what an actor awaits has them too, and so has `asyncio.to_thread`; threads that
an actor starts by itself have them only if it runs them in a copy of its context.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from ...errors import NoFencingToken


class Claimed(Protocol):
    """The right to run under a key."""

    @property
    def token(self) -> int:
        """Greater than every one that was given for the key before."""

    @property
    def is_lost(self) -> bool:
        """Whether somebody else may run under the key by now."""


_CURRENT: ContextVar[Claimed | None] = ContextVar("dramatiq_streams_claim", default=None)


def current_fencing_token() -> int:
    """The token of the message that runs: put it into whatever the actor writes.

    Raises:
        NoFencingToken: No actor with an idempotency key runs here.
    """
    claim = _CURRENT.get()
    if claim is None:
        raise NoFencingToken
    return claim.token


def lease_is_lost() -> bool:
    """Whether another worker may run the same key by now; asks no server.

    False where no actor with an idempotency key runs.
    """
    claim = _CURRENT.get()
    return claim is not None and claim.is_lost


def set_claim(claim: Claimed | None) -> None:
    """Let the actor of this thread see *claim*, or none."""
    _CURRENT.set(claim)


@contextmanager
def fencing_token(token: int) -> Iterator[None]:
    """Within it `current_fencing_token` is *token*: for tests that call an actor by themselves."""
    before = _CURRENT.set(_Given(token))
    try:
        yield
    finally:
        _CURRENT.reset(before)


@dataclass(frozen=True, slots=True)
class _Given:
    token: int
    is_lost: bool = False
