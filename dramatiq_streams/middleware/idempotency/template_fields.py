"""Which arguments a template is made of, if `str.format` can make anything of it (pure)."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_CONVERSIONS = (None, "r", "s", "a")

#: `str.format` takes fields, and fields in how these are to be written, but none inside those.
_MOST_LEVELS = 2


def argument_names(template: str) -> set[str]:
    """The arguments that *template* names, also in how others are to be written.

    Raises:
        ValueError: `str.format` would fail, whatever the arguments are.
    """
    return set(_names(template, _MOST_LEVELS))


def _names(template: str, levels: int) -> Iterator[str]:
    for _, field, spec, conversion in string.Formatter().parse(template):
        if field is None:
            continue
        if levels == 0:
            raise ValueError(f"'{{{field}}}' is nested too deeply")
        if conversion not in _CONVERSIONS:
            raise ValueError(f"'!{conversion}' is no conversion: there are !r, !s and !a")
        _, first = _Reader().get_field(field, (), {})
        yield str(first)
        yield from _names(spec or "", levels - 1)


class _Reader(string.Formatter):
    """Reads a field such as `user[id]` or `user.id` as `str.format` does, and has no arguments."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return _Anything()


class _Anything:
    """Has every attribute and every item."""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __getitem__(self, name: object) -> _Anything:
        return self
