"""Numbers with units as people type them on a command line (pure)."""

from __future__ import annotations

import argparse
import math
import re

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)\Z")
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/([smh]))?\Z")
#: A pause between two letters can be no longer than some days.
_SLOWEST = 0.01 / 3_600
_SECONDS = {None: 1, "s": 1, "m": 60, "h": 3_600}


def duration_ms(text: str) -> int:
    """`90s`, `15m`, `2h` or `7d` in milliseconds."""
    match = _DURATION.match(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no duration: a number with ms, s, m, h or d, as in 90s or 7d"
        )
    milliseconds = float(match[1]) * _MILLISECONDS[match[2]]
    if milliseconds > 1e14:
        raise argparse.ArgumentTypeError(f"{text!r} is too long a time")
    return round(milliseconds)


def rate_per_s(text: str) -> float:
    """`10/s`, `600/m` or `1000/h` as a number per second; without a unit it is per second."""
    match = _RATE.match(text)
    rate = float(match[1]) / _SECONDS[match[2]] if match else 0.0
    if not _SLOWEST <= rate < 1e9:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no rate: a number with /s, /m or /h, as in 10/s, or without for per"
            " second, and not below 0.01/h"
        )
    return rate


def seconds(text: str) -> float:
    """A number of seconds above 0, at most a day."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0, up to 86400")
    return value


def count(text: str) -> int:
    """A whole number from 1 to a billion."""
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to 1000000000")
    return int(text)
