"""The texts of Lua scripts, from their files: `--- @include "name"` pastes a fragment."""

from __future__ import annotations

import re
from importlib.resources.abc import Traversable

from .errors import StreamsError

_INCLUDE = re.compile(r'^--- @include "(\w+)"\n', re.MULTILINE)


def assemble(folder: Traversable) -> dict[str, str]:
    """The text of every script in *folder*, with its includes pasted in.

    Raises:
        StreamsError: An include is missing or includes itself; the trail of files is named.
    """
    scripts = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".lua"):
            name = file.name.removesuffix(".lua")
            scripts[name] = _paste(folder, file.read_text("utf-8"), (name,), set())
    return scripts


def _paste(folder: Traversable, text: str, trail: tuple[str, ...], pasted: set[str]) -> str:
    def fragment(match: re.Match[str]) -> str:
        name = match[1]
        if name in trail:
            raise StreamsError(f"A Lua include goes round: {' -> '.join((*trail, name))}")
        if name in pasted:
            return ""
        pasted.add(name)
        file = folder / "include" / f"{name}.lua"
        if not file.is_file():
            raise StreamsError(f"A Lua include is missing: {' -> '.join((*trail, name))}")
        return _paste(folder, file.read_text("utf-8"), (*trail, name), pasted)

    return _INCLUDE.sub(fragment, text)
