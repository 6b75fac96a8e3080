"""What the actors that work on a page have in common: when they are tried again."""

from __future__ import annotations

from typing import Any, Final

from dramatiq.errors import Retry

#: Attempts that may fail with anything but `Retry`: some minutes, for a full disk or a bug.
MOST_FAILURES: Final = 8


def is_worth_retrying(retries: int, exception: BaseException) -> bool:
    """True when an actor that failed *retries* times before is to run again.

    `Retry` is how `fetch_page` asks for another attempt; it counts them itself.
    """
    return isinstance(exception, Retry) or retries < MOST_FAILURES


PAGE_OPTIONS: Final[dict[str, Any]] = {
    "retry_when": is_worth_retrying,
    "min_backoff": 1_000,
    "max_backoff": 60_000,
    "on_retry_exhausted": "give_up",
}
