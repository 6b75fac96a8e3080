"""The Lua scripts: assembled once at import, one typed method for each.

A script's file is named after its method, and its header names the same parameters in the same
order; a test compares them. Call sites never see a hash or a `KEYS` index.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Protocol

from redis.exceptions import NoScriptError

from .errors import StreamsError

_INCLUDE = re.compile(r'^--- @include "(\w+)"\n', re.MULTILINE)


class Runs(Protocol):
    """Anything that sends one command and returns the reply."""

    def execute(self, *command: Any) -> Any:
        """Send *command*, return its reply."""


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


def assembled() -> dict[str, str]:
    """The text of every script of this package, by name."""
    return dict(_TEXTS)


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


_TEXTS: Mapping[str, str] = assemble(resources.files(__package__) / "lua")
_HASHES = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in _TEXTS.items()}


class Scripts:
    """Each script as a method, run through *runs*."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def ack(
        self, *, wake: str, lanes: Sequence[str], group: str, consumer: str, acks: Iterable[Any]
    ) -> list[int]:
        """Run `ack.lua`."""
        return self._run("ack", [wake, *lanes], [group, consumer, _json(acks)])

    def delay(
        self,
        *,
        wake: str,
        delayed: str,
        delayed_messages: str,
        delivery: str,
        lane_name: str,
        message: bytes,
        delay: int,
    ) -> int:
        """Run `delay.lua`."""
        keys = [wake, delayed, delayed_messages]
        return self._run("delay", keys, [delivery, lane_name, message, delay])

    def ensure_groups(self, *, wake: str, lanes: Sequence[str], group: str) -> int:
        """Run `ensure_groups.lua`."""
        return self._run("ensure_groups", [wake, *lanes], [group])

    def extend(
        self,
        *,
        consumers: str,
        lanes: Sequence[str],
        group: str,
        consumer: str,
        held: Iterable[Any],
    ) -> list[int]:
        """Run `extend.lua`."""
        return self._run("extend", [consumers, *lanes], [group, consumer, _json(held)])

    def hand_over(
        self,
        *,
        wake: str,
        delayed: str,
        delayed_messages: str,
        source: str,
        target: str,
        group: str,
        consumer: str,
        entry: str,
        deliveries: int,
        delivery: str,
        lane_name: str,
        message: bytes,
        delay: int,
    ) -> int:
        """Run `hand_over.lua`."""
        keys = [wake, delayed, delayed_messages, source, target]
        holder = [group, consumer, entry, deliveries]
        return self._run("hand_over", keys, [*holder, delivery, lane_name, message, delay])

    def purge(
        self,
        *,
        delayed: str,
        delayed_messages: str,
        dead: str,
        wake: str,
        lanes: Sequence[str],
        group: str,
    ) -> int:
        """Run `purge.lua`."""
        return self._run("purge", [delayed, delayed_messages, dead, wake, *lanes], [group])

    def read(
        self,
        *,
        wake: str,
        delayed: str,
        delayed_messages: str,
        lanes: Sequence[str],
        group: str,
        consumer: str,
        released: str,
        budget: int,
        shares: Sequence[int],
        acks: Iterable[Any],
        lane_names: Sequence[str],
        fallback: int,
        limit: int,
        watch: int,
    ) -> list[Any]:
        """Run `read.lua`."""
        keys = [wake, delayed, delayed_messages, *lanes]
        reader = [group, consumer, released, budget]
        work = [_json(shares), _json(acks), _json(lane_names), fallback, limit, watch]
        return self._run("read", keys, [*reader, *work])

    def recover(
        self,
        *,
        wake: str,
        dead: str,
        lanes: Sequence[str],
        group: str,
        released: str,
        lease: int,
        cursors: Sequence[str],
        limit: int,
        max_deliveries: int,
        lane_names: Sequence[str],
        ttl: int,
    ) -> list[Any]:
        """Run `recover.lua`."""
        scan = [lease, _json(cursors), limit]
        judgement = [max_deliveries, _json(lane_names), ttl]
        return self._run("recover", [wake, dead, *lanes], [group, released, *scan, *judgement])

    def reject(
        self,
        *,
        lane: str,
        dead: str,
        group: str,
        consumer: str,
        entry: str,
        deliveries: int,
        lane_name: str,
        message: bytes,
        reason: str,
        error: str,
        ttl: int,
    ) -> int:
        """Run `reject.lua`."""
        holder = [group, consumer, entry, deliveries]
        letter = [lane_name, message, reason, error, ttl]
        return self._run("reject", [lane, dead], [*holder, *letter])

    def release(
        self,
        *,
        wake: str,
        lanes: Sequence[str],
        group: str,
        consumer: str,
        released: str,
        entries: Iterable[Any],
    ) -> int:
        """Run `release.lua`."""
        return self._run("release", [wake, *lanes], [group, consumer, released, _json(entries)])

    def release_unheld(
        self,
        *,
        wake: str,
        lanes: Sequence[str],
        group: str,
        consumer: str,
        released: str,
        held: Iterable[Any],
        limit: int,
    ) -> int:
        """Run `release_unheld.lua`."""
        arguments = [group, consumer, released, _json(held), limit]
        return self._run("release_unheld", [wake, *lanes], arguments)

    def size(self, *, delayed: str, lanes: Sequence[str]) -> int:
        """Run `size.lua`."""
        return self._run("size", [delayed, *lanes], [])

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


def _json(value: Iterable[Any]) -> str:
    return json.dumps(list(value), separators=(",", ":"))
