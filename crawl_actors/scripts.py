"""Loads the Lua files of `lua/` and runs them.

A line `--- @include "name"` is replaced by `lua/include/name.lua`. What a script does and which
keys and arguments it takes is said at the top of its file; the rooms that call it give them names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any

import redis
from dramatiq.errors import ConnectionClosed
from redis.commands.core import Script

_INCLUDE = re.compile(r'^--- @include "(\w+)"$', re.MULTILINE)


@cache
def script_text(name: str) -> str:
    """The whole text of the script *name*, its fragments pasted in."""
    folder = resources.files("crawl_actors") / "lua"

    def fragment(match: re.Match[str]) -> str:
        return (folder / "include" / f"{match[1]}.lua").read_text(encoding="utf-8").rstrip("\n")

    return _INCLUDE.sub(fragment, (folder / f"{name}.lua").read_text(encoding="utf-8"))


def run_script(
    client: redis.Redis, name: str, *, keys: Sequence[str], args: Sequence[str | int]
) -> Any:
    """Run the script *name* and return its reply.

    Raises:
        ConnectionClosed: The server cannot be reached; whether the script ran is not known.
    """
    return run_commands(lambda: Script(client, script_text(name))(keys=keys, args=args))


def run_commands(commands: Callable[[], Any]) -> Any:
    """Call *commands*, with redis-py's connection errors turned into dramatiq's.

    Raises:
        ConnectionClosed: The server cannot be reached; what it did is not known.
    """
    try:
        return commands()
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise ConnectionClosed(str(error)) from error
