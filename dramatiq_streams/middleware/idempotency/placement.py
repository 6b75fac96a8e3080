"""Where `Idempotency` stands among a broker's middleware, and what it needs there (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from dramatiq.middleware import (
    Callbacks,
    GroupCallbacks,
    Middleware,
    Pipelines,
    Retries,
    ShutdownNotifications,
    TimeLimit,
)
from dramatiq.results import Results

from ...errors import InvalidIdempotency

#: What they enqueue or store has to be there before a key is done: should the worker die in
#: between, the message runs again, and otherwise that would be lost. And the first two interrupt
#: threads, which must not happen while a key is claimed or completed. Before the actor middleware
#: is told in order, after it in reverse.
LATER = (TimeLimit, ShutdownNotifications, Callbacks, Pipelines, Retries, GroupCallbacks, Results)


def check_place(middleware: Sequence[Middleware], own: Middleware) -> None:
    """Make sure that *own* stands before all that has to come after it.

    Raises:
        InvalidIdempotency: It does not, or there are two of its kind.
    """
    position = middleware.index(own)
    if sum(type(each) is type(own) for each in middleware) > 1:
        raise InvalidIdempotency("A broker can have one Idempotency only.")
    for each in middleware[:position]:
        if isinstance(each, LATER):
            name = type(each).__name__
            raise InvalidIdempotency(
                f"Idempotency must stand before {name} in the broker's middleware. Write"
                f" broker.add_middleware(Idempotency(...), before={name})."
            )
