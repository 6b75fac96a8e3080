"""How the Lua scripts are called: assembled once at import, by their hashes, loaded when missing.

A script's file is named after its method, and its header names the same parameters in the same
order; a test compares them. Call sites never see a hash or a `KEYS` index.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, Protocol

from redis.exceptions import NoScriptError

from .assembling import assemble


class Runs(Protocol):
    """Anything that sends one command and returns the reply."""

    def execute(self, *command: Any) -> Any:
        """Send *command*, return its reply."""


def assembled() -> dict[str, str]:
    """The text of every script of this package, by name."""
    return dict(_TEXTS)


def script_hash(name: str) -> str:
    """The SHA1 by which servers know the script *name*."""
    return _HASHES[name]


_TEXTS: Mapping[str, str] = assemble(resources.files(__package__) / "lua")
_HASHES = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in _TEXTS.items()}
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class ScriptCalls:
    """Runs scripts through *runs*; each subclass has a method for each script of its subject."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def command(self, name: str, keys: Sequence[str], arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The command that runs the script *name* in a pipeline, where it is loaded already."""
        return ("EVALSHA", _HASHES[name], len(keys), *keys, *arguments)

    def loading(self, name: str) -> tuple[Any, ...]:
        """The command that loads the script *name*, for the head of a pipeline."""
        return ("SCRIPT", "LOAD", _TEXTS[name])

    def _run(self, name: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        try:
            return self._runs.execute("EVALSHA", _HASHES[name], len(keys), *keys, *arguments)
        except NoScriptError:
            # A new server, a restart or SCRIPT FLUSH. Nothing has run yet: EVAL runs and loads it.
            return self._runs.execute("EVAL", _TEXTS[name], len(keys), *keys, *arguments)


def encoded(value: Iterable[Any]) -> str:
    """A list, or a mapping of names, as scripts take it."""
    return _ENCODER.encode(value if isinstance(value, dict) else list(value))


@functools.lru_cache(maxsize=1024)
def encoded_once(value: tuple[Any, ...]) -> str:
    """As `encoded`, for the few that are sent again and again."""
    return encoded(value)
