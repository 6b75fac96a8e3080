"""What the options take: each function reads what was typed, or says what is allowed."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

from crawl_actors.robots_rules import product_token
from crawl_actors.settings import CrawlSettings

#: Nobody waits longer than a day.
MAX_SECONDS = 86_400


def whole_number(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    """Reads whole numbers of *lowest* or more, up to *highest*."""
    allowed = f"{lowest} or more" if highest is None else f"{lowest} to {highest}"

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = lowest - 1
        if number < lowest or (highest is not None and number > highest):
            raise ArgumentTypeError(f"must be a whole number, {allowed}, not {text!r}")
        return number

    return read


def seconds(lowest: float) -> Callable[[str], float]:
    """Reads seconds, from *lowest* to `MAX_SECONDS`."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        # Not a number is neither more nor less.
        if not lowest <= number <= MAX_SECONDS:
            raise ArgumentTypeError(
                f"must be a number of seconds, {lowest:g} to {MAX_SECONDS}, not {text!r}"
            )
        return number

    return read


def user_agent(text: str) -> str:
    """Reads what can be sent, and be found in a robots.txt."""
    try:
        product_token(CrawlSettings(user_agent=text).user_agent)
    except ValueError:
        raise ArgumentTypeError(
            "must be printable ASCII that begins with a name of letters, '-' and '_', such as"
            f" 'crawl-actors/1.0', not {text!r}"
        ) from None
    return text


def directory(text: str) -> Path:
    """Reads a path."""
    if not text.strip():
        raise ArgumentTypeError(f"must be a directory, not {text!r}")
    return Path(text)
