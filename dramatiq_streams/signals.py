"""Which middleware has something to do at a signal.

A message meets a dozen signals, and each of them every middleware, of which hardly one does
anything then. So those are left out that only inherit dramatiq's empty method.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from dramatiq.broker import Broker
from dramatiq.middleware import Middleware, MiddlewareError

from .causes import Causes
from .messages import DeliveredMessage, GivenBack

Known = tuple[list[Middleware], dict[str, Sequence[Middleware]]]


class Signals:
    """Remembers which of a broker's middleware acts at which signal.

    A method that is put on middleware which had none is noticed when the list changes.
    """

    def __init__(self) -> None:
        #: As one value: several threads ask, and one of them may see another list.
        self._known: Known = ([], {})

    def acting(self, name: str, middleware: list[Middleware]) -> Sequence[Middleware]:
        """Those of *middleware* that have a method *name* of their own, in order."""
        listed, found = self._known
        if listed != middleware:  # compares by identity first
            listed, found = self._known = list(middleware), {}
        if name not in found:
            found[name] = [each for each in listed if _acts(each, name)]
        return found[name]


def _acts(middleware: Middleware, name: str) -> bool:
    method = getattr(middleware, name, None)
    if method is None:
        return False
    return getattr(method, "__func__", None) is not getattr(Middleware, name, method)


class SignallingBroker(Broker):
    """A broker that tells its middleware as dramatiq does, and spares those that do not listen."""

    def __init__(self, middleware: list[Middleware]) -> None:
        self._causes = Causes()
        self._signals = Signals()
        super().__init__(middleware=middleware)

    def emit_before(self, signal: str, *args: Any, **kwargs: Any) -> None:
        """Tell all middleware, but of no message that is another worker's by now."""
        if _is_withdrawn(signal, args):
            return
        signal = "before_" + signal
        for middleware in self._signals.acting(signal, self.middleware):
            try:
                getattr(middleware, signal)(self, *args, **kwargs)
            except GivenBack:
                args[0].fail()  # dramatiq does not run what has failed.
                return
            except MiddlewareError:
                raise
            except Exception:
                self._log_failure(signal, middleware)

    def emit_after(self, signal: str, *args: Any, **kwargs: Any) -> None:
        """Tell all middleware, but of no message that is another worker's by now."""
        if _is_withdrawn(signal, args):
            return
        if signal == "process_message":
            self._causes.begin(args[0])
        signal = "after_" + signal
        try:
            for middleware in reversed(self._signals.acting(signal, self.middleware)):
                try:
                    getattr(middleware, signal)(self, *args, **kwargs)
                except Exception:
                    self._log_failure(signal, middleware)
        finally:
            if signal == "after_process_message":
                self._causes.end()

    def _log_failure(self, signal: str, middleware: Middleware) -> None:
        self.logger.critical(  # called from where the exception is handled
            "Unexpected failure in %s of %r.", signal, middleware, exc_info=sys.exception()
        )


def _is_withdrawn(signal: str, args: Sequence[Any]) -> bool:
    if signal not in ("process_message", "skip_message", "ack", "nack"):
        return False
    return isinstance(args[0], DeliveredMessage) and args[0].is_withdrawn
