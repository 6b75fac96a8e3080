"""Where pottery's methods write down what they would send to a server (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .votes import LockCommand


class Notepad:
    """Stands in for a `redis.Redis` in pottery's methods, and notes what they would send."""

    def __init__(self) -> None:
        self.command = LockCommand(())

    def set(self, key: str, value: str, *, px: int, nx: bool) -> None:
        """Note a SET."""
        self.command = LockCommand(("SET", key, value, "PX", px, *["NX"] * nx))

    def register_script(self, text: str) -> NotedScript:
        """A script that is noted when it is called; pottery keeps it for all its locks."""
        return NotedScript(text, hashlib.sha1(text.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class NotedScript:
    """One of pottery's scripts."""

    text: str
    sha1: str

    def __call__(self, *, keys: Sequence[str], args: Sequence[Any], client: Notepad) -> None:
        """Note that it would be run."""
        rest = (len(keys), *keys, *args)
        client.command = LockCommand(
            ("EVALSHA", self.sha1, *rest), unabridged=("EVAL", self.text, *rest)
        )
