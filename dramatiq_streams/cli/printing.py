"""How commands print: aligned text for people, JSON for programs."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar

#: Longer texts in a table are cut; JSON has all of them.
WIDEST_CELL = 60

#: Fields that are a time; the others whose names end in `_ms` are how long something takes.
_TIMES = ("sent_ms", "died_ms", "started_ms", "finished_ms")

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


Found = TypeVar("Found")


def first_page(
    walk: Iterator[Found], limit: int, cursor: Callable[[Found], str]
) -> tuple[list[Found], str | None]:
    """The first *limit* of *walk*, and the cursor of the last one if others follow."""
    page = list(islice(walk, limit))
    has_more = bool(page) and next(walk, None) is not None
    return page, cursor(page[-1]) if has_more else None


def print_page(
    name: str,
    views: Sequence[Mapping[str, Any]],
    following: str | None,
    *,
    table: tuple[Sequence[str], Callable[[Any], Sequence[object]]],
    as_json: bool,
) -> None:
    """Print a page of a list, and how to get the next one.

    Args:
        name: What is listed, in JSON.
        following: The cursor of the next page, if there is one.
        table: The headings, and how a view becomes a row.
    """
    if as_json:
        print_json({name: views, "next": following})
        return
    headings, row = table
    print_table(headings, map(row, views))
    if following:
        print(f"More: --after {_quoted(following)}")


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


def print_fields(fields: Mapping[str, Any], *, now_ms: int) -> None:
    """Print one thing, a field a line; texts of several lines are indented, an empty line ends it.

    The encoded body is left out where the message could be decoded. Milliseconds become what
    people read, and their names lose the `_ms`.
    """
    for name, value in fields.items():
        if name == "body" and fields.get("message_id") is not None:
            continue
        if not name.endswith("_ms"):
            print(f"{name}: {_field(value)}")
            continue
        shown = _moment(value, now_ms) if name in _TIMES else span(value)
        print(f"{name.removesuffix('_ms')}: {_field(value) if shown is None else shown}")
    print()


def _moment(value: object, now_ms: int) -> str | None:
    """A time as `2026-11-30T12:00:00.000Z (5m2s ago)`; None for what is no time."""
    if not isinstance(value, int | float):
        return None
    try:
        moment = datetime.fromtimestamp(value / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # anything can be in a message
        return None
    text = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    away = duration(abs(now_ms - value))
    return f"{text} ({away} ago)" if value <= now_ms else f"{text} (in {away})"


def span(value: object) -> str | None:
    """How long until something, as `5m2s`, or since then, as `5m2s ago`; None for no time."""
    if not isinstance(value, int | float):
        return None
    return duration(value) if value >= 0 else f"{duration(-value)} ago"


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


def _quoted(text: str) -> str:
    """*text* as a shell takes it, without what could command a terminal."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    shown = (c if c.isprintable() else rf"\U{ord(c):08x}" for c in escaped)
    return f"$'{''.join(shown)}'"


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
