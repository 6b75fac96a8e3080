"""How commands print: aligned text for people, JSON for programs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: Longer texts in a table are cut; JSON has all of them.
WIDEST_CELL = 60

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def print_json(value: Any) -> None:
    """Print *value* as one line of JSON."""
    print(json.dumps(value, default=as_json))


def as_json(value: Any) -> Any:
    """What JSON has no form for: sets are lists, bytes are base64, the rest is its `repr`."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return repr(value)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print *rows* in columns; numbers are aligned to the right, None is a dash."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    numeric = [
        bool(column) and all(cell[:1].isdigit() or cell in ("", "-") for cell in column)
        for column in (zip(*cells, strict=True) if cells else [()] * len(headings))
    ]
    for line in [list(headings), *cells]:
        aligned = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(aligned).rstrip())


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print one thing, a field a line; texts of several lines are indented, an empty line ends it.

    The encoded body is left out where the message could be decoded.
    """
    for name, value in fields.items():
        if name == "body" and fields.get("message_id") is not None:
            continue
        print(f"{name}: {_field(value)}")
    print()


def _field(value: object) -> str:
    if isinstance(value, dict) and value:
        inner = (f"\n  {printable(str(name))}: {_field(item)}" for name, item in value.items())
        return "".join(inner)
    lines = str(value).splitlines() if isinstance(value, str) else [repr(value)]
    return "\n    ".join(map(printable, lines))


def counted(number: int, noun: str) -> str:
    """`1 letter`, `2 letters`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printable(text: str) -> str:
    """*text* on one line, without what could command a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def duration(milliseconds: float | None) -> str | None:
    """A time for people, in its two largest units: 3d4h, 5m2s, 0.3s."""
    if milliseconds is None:
        return None
    if milliseconds < 10_000:
        return f"{milliseconds / 1000:.1f}s"
    left, parts = int(milliseconds / 1000), []
    for seconds, unit in _UNITS:
        if left >= seconds:
            parts.append(f"{left // seconds}{unit}")
            left %= seconds
    return "".join(parts[:2])


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}"
    text = printable(str(value))
    return text if len(text) <= WIDEST_CELL else f"{text[: WIDEST_CELL - 3]}..."
