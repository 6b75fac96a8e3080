"""Which middleware has something to do at a signal.

A message meets a dozen signals, and each of them every middleware, of which hardly one does
anything then. So those are left out that only inherit dramatiq's empty method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dramatiq.middleware import Middleware

Hook = tuple[Middleware, Callable[..., Any]]


class Signals:
    """Remembers the hooks of a broker's middleware."""

    def __init__(self) -> None:
        self._known: list[Middleware] = []
        self._hooks: dict[str, Sequence[Hook]] = {}

    def hooks(self, name: str, middleware: list[Middleware]) -> Sequence[Hook]:
        """Each of *middleware* that has a method *name* of its own, and that method, in order."""
        if self._known != middleware:  # compares by identity first
            self._known, self._hooks = list(middleware), {}
        found = self._hooks.get(name)
        if found is None:
            found = [(each, getattr(each, name)) for each in self._known if _acts(each, name)]
            self._hooks[name] = found
        return found


def _acts(middleware: Middleware, name: str) -> bool:
    method = getattr(middleware, name, None)
    if method is None:
        return False
    return getattr(method, "__func__", None) is not getattr(Middleware, name, method)
