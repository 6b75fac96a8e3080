"""Waiting for a condition, never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    predicate: Callable[[], T], *, timeout: float = 20.0, interval: float = 0.01, message: str = ""
) -> T:
    """The first true value of *predicate*, asked every *interval* seconds.

    Args:
        message: What was waited for, in the failure's text; the predicate's name otherwise.

    Raises:
        AssertionError: still false after *timeout* seconds; the text holds the last value.
    """
    started = time.monotonic()
    deadline = started + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= deadline:
            waited = time.monotonic() - started
            subject = message or _describe(predicate)
            raise AssertionError(f"after {waited:.1f} s still not: {subject} (last: {value!r})")
        time.sleep(interval)


def _describe(predicate: Callable[[], object]) -> str:
    code = getattr(predicate, "__code__", None)
    name = getattr(predicate, "__qualname__", repr(predicate))
    if code is None:
        return name
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"
