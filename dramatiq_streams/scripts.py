"""The Lua scripts: assembled once at import, one typed method for each.

A script's file is named after its method, and its header names the same parameters in the same
order; a test compares them. Call sites never see a hash or a `KEYS` index.
"""

from __future__ import annotations

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


_TEXTS: Mapping[str, str] = assemble(resources.files(__package__) / "lua")
_HASHES = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in _TEXTS.items()}


class Scripts:
    """Each script as a method, run through *runs*."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def ack(
        self,
        *,
        wake: str,
        unique: str,
        unique_messages: str,
        lanes: Sequence[str],
        group: str,
        consumer: str,
        acks: Iterable[Any],
    ) -> list[int]:
        """Run `ack.lua`."""
        keys = [wake, unique, unique_messages, *lanes]
        return self._run("ack", keys, [group, consumer, _json(acks)])

    def beat(
        self,
        *,
        consumers: str,
        connections: str,
        host: str,
        consumer: str,
        ids: str,
        identity: str,
        host_ttl: int,
        late: int,
        limit: int,
    ) -> list[Any]:
        """Run `beat.lua`."""
        keys = [consumers, connections, host]
        return self._run("beat", keys, [consumer, ids, identity, host_ttl, late, limit])

    def cancel(
        self,
        *,
        lane: str,
        cancelled: str,
        unique: str,
        unique_messages: str,
        group: str,
        released: str,
        lane_name: str,
        entry: str,
    ) -> bytes:
        """Run `cancel.lua`."""
        keys = [lane, cancelled, unique, unique_messages]
        return self._run("cancel", keys, [group, released, lane_name, entry])

    def cancel_delayed(
        self,
        *,
        delayed: str,
        delayed_messages: str,
        counts: str,
        unique: str,
        unique_messages: str,
        delivery: str,
    ) -> int:
        """Run `cancel_delayed.lua`."""
        keys = [delayed, delayed_messages, counts, unique, unique_messages]
        return self._run("cancel_delayed", keys, [delivery])

    def begin(self, *, lane: str, group: str, consumer: str, entry: str, deliveries: int) -> int:
        """Run `begin.lua`."""
        return self._run("begin", [lane], [group, consumer, entry, deliveries])

    def claims_prune(self, *, claims: str, place: str, limit: int) -> list[Any]:
        """Run `claims_prune.lua`."""
        return self._run("claims_prune", [claims], [place, limit])

    def claims_release(self, *, claims: str, owner: bytes, digests: bytes) -> int:
        """Run `claims_release.lua`."""
        return self._run("claims_release", [claims], [owner, digests])

    def claims_set_bits(self, *, bits: str, hashes: int, offsets: bytes) -> bytes:
        """Run `claims_set_bits.lua`."""
        return self._run("claims_set_bits", [bits], [hashes, offsets])

    def claims_take(
        self, *, claims: str, cursor: str, owner: bytes, ttl: int, digests: bytes
    ) -> bytes:
        """Run `claims_take.lua`."""
        return self._run("claims_take", [claims, cursor], [owner, ttl, digests])

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

    def enqueue_unique(
        self,
        *,
        wake: str,
        delayed: str,
        delayed_messages: str,
        lane: str,
        unique: str,
        unique_messages: str,
        unique_key: str,
        ttl: int,
        message_id: str,
        again: int,
        delivery: str,
        lane_name: str,
        message: bytes,
        delay: int,
    ) -> bytes:
        """Run `enqueue_unique.lua`."""
        keys = [wake, delayed, delayed_messages, lane, unique, unique_messages]
        reservation = [unique_key, ttl, message_id, again]
        return self._run(
            "enqueue_unique", keys, [*reservation, delivery, lane_name, message, delay]
        )

    def ensure_groups(self, *, paused: str, wake: str, lanes: Sequence[str], group: str) -> int:
        """Run `ensure_groups.lua`."""
        return self._run("ensure_groups", [paused, wake, *lanes], [group])

    def expire_unique(self, *, unique: str, unique_messages: str, limit: int) -> int:
        """Run `expire_unique.lua`."""
        return self._run("expire_unique", [unique, unique_messages], [limit])

    def extend(
        self, *, lanes: Sequence[str], group: str, consumer: str, held: Iterable[Any]
    ) -> list[int]:
        """Run `extend.lua`."""
        return self._run("extend", [*lanes], [group, consumer, _json(held)])

    def forget(
        self,
        *,
        consumers: str,
        connections: str,
        host: str,
        wake: str,
        lanes: Sequence[str],
        group: str,
        consumer: str,
        heartbeat: str,
    ) -> int:
        """Run `forget.lua`."""
        keys = [consumers, connections, host, wake, *lanes]
        return self._run("forget", keys, [group, consumer, heartbeat])

    def free_unique(
        self, *, unique: str, unique_messages: str, unique_key: str, message_id: str
    ) -> int:
        """Run `free_unique.lua`."""
        return self._run("free_unique", [unique, unique_messages], [unique_key, message_id])

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
        is_unique: int,
    ) -> int:
        """Run `hand_over.lua`."""
        keys = [wake, delayed, delayed_messages, source, target]
        holder = [group, consumer, entry, deliveries]
        retry = [delivery, lane_name, message, delay, is_unique]
        return self._run("hand_over", keys, [*holder, *retry])

    def inspect(
        self,
        *,
        paused: str,
        cancelled: str,
        counts: str,
        delayed: str,
        dead: str,
        consumers: str,
        lanes: Sequence[str],
        group: str,
        released: str,
        lease: int,
    ) -> list[Any]:
        """Run `inspect.lua`."""
        keys = [paused, cancelled, counts, delayed, dead, consumers, *lanes]
        return self._run("inspect", keys, [group, released, lease])

    def pause(self, *, paused: str, wake: str, group: str) -> int:
        """Run `pause.lua`."""
        return self._run("pause", [paused, wake], [group])

    def purge(
        self,
        *,
        delayed: str,
        delayed_messages: str,
        dead: str,
        cancelled: str,
        unique: str,
        unique_messages: str,
        wake: str,
        lanes: Sequence[str],
        group: str,
    ) -> int:
        """Run `purge.lua`."""
        keys = [delayed, delayed_messages, dead, cancelled, unique, unique_messages, wake, *lanes]
        return self._run("purge", keys, [group])

    def read(
        self,
        *,
        wake: str,
        paused: str,
        cancelled: str,
        counts: str,
        delayed: str,
        delayed_messages: str,
        unique: str,
        unique_messages: str,
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
        max_deliveries: int,
        watch: int,
    ) -> list[Any]:
        """Run `read.lua`."""
        keys = [wake, paused, cancelled, counts, delayed, delayed_messages]
        keys += [unique, unique_messages, *lanes]
        reader = [group, consumer, released, budget]
        options = [fallback, limit, max_deliveries, watch]
        work = [_json(shares), _json(acks), _json(lane_names), *options]
        return self._run("read", keys, [*reader, *work])

    def record_finish(
        self,
        *,
        record: str,
        running: str,
        key: str,
        token: int,
        state: str,
        arguments: str,
        message: str,
        result: bytes,
        ttl: int,
    ) -> int:
        """Run `record_finish.lua`."""
        outcome = [key, token, state, arguments, message, result, ttl]
        return self._run("record_finish", [record, running], outcome)

    def record_keep(
        self, *, running: str, records: Sequence[str], lease: int, held: Iterable[Any]
    ) -> list[int]:
        """Run `record_keep.lua`."""
        return self._run("record_keep", [running, *records], [lease, _json(held)])

    def record_look(self, *, record: str, arguments: str, message: str, ttl: int) -> list[Any]:
        """Run `record_look.lua`."""
        return self._run("record_look", [record], [arguments, message, ttl])

    def record_reset(self, *, record: str, running: str, key: str) -> int:
        """Run `record_reset.lua`."""
        return self._run("record_reset", [record, running], [key])

    def record_start(
        self,
        *,
        record: str,
        running: str,
        key: str,
        arguments: str,
        message: str,
        owner: str,
        consumer: str,
        lease: int,
        ttl: int,
    ) -> list[Any]:
        """Run `record_start.lua`."""
        holder = [key, arguments, message, owner, consumer, lease, ttl]
        return self._run("record_start", [record, running], holder)

    def recover(
        self,
        *,
        wake: str,
        dead: str,
        unique: str,
        unique_messages: str,
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
        keys = [wake, dead, unique, unique_messages, *lanes]
        return self._run("recover", keys, [group, released, *scan, *judgement])

    def redrive(
        self,
        *,
        dead: str,
        lane: str,
        unique: str,
        unique_messages: str,
        letter: str,
        message: bytes,
        token: str,
        message_id: str,
        unique_for: int,
    ) -> list[Any]:
        """Run `redrive.lua`."""
        keys = [dead, lane, unique, unique_messages]
        return self._run("redrive", keys, [letter, message, token, message_id, unique_for])

    def reject(
        self,
        *,
        lane: str,
        dead: str,
        unique: str,
        unique_messages: str,
        group: str,
        consumer: str,
        entry: str,
        deliveries: int,
        lane_name: str,
        message: bytes,
        reason: str,
        error: str,
        ttl: int,
        is_unique: int,
    ) -> int:
        """Run `reject.lua`."""
        keys = [lane, dead, unique, unique_messages]
        holder = [group, consumer, entry, deliveries]
        letter = [lane_name, message, reason, error, ttl, is_unique]
        return self._run("reject", keys, [*holder, *letter])

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

    def release_dead(
        self,
        *,
        consumers: str,
        wake: str,
        dead: str,
        unique: str,
        unique_messages: str,
        lanes: Sequence[str],
        group: str,
        consumer: str,
        released: str,
        heartbeat: str,
        limit: int,
        max_deliveries: int,
        lane_names: Sequence[str],
        ttl: int,
    ) -> list[int]:
        """Run `release_dead.lua`."""
        suspect = [group, consumer, released, heartbeat, limit]
        judgement = [max_deliveries, _json(lane_names), ttl]
        keys = [consumers, wake, dead, unique, unique_messages, *lanes]
        return self._run("release_dead", keys, [*suspect, *judgement])

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

    def resume(self, *, paused: str, wake: str, group: str) -> int:
        """Run `resume.lua`."""
        return self._run("resume", [paused, wake], [group])

    def screen(
        self,
        *,
        cancelled: str,
        counts: str,
        unique: str,
        unique_messages: str,
        lanes: Sequence[str],
        group: str,
        consumer: str,
        lane_names: Sequence[str],
        entries: Iterable[Any],
    ) -> list[int]:
        """Run `screen.lua`."""
        arguments = [group, consumer, _json(lane_names), _json(entries)]
        keys = [cancelled, counts, unique, unique_messages, *lanes]
        return self._run("screen", keys, arguments)

    def size(self, *, delayed: str, lanes: Sequence[str]) -> int:
        """Run `size.lua`."""
        return self._run("size", [delayed, *lanes], [])

    def start_unique(self, *, lane: str, unique: str, unique_messages: str, entry: str) -> int:
        """Run `start_unique.lua`."""
        return self._run("start_unique", [lane, unique, unique_messages], [entry])

    def take_in(
        self,
        *,
        wake: str,
        delayed: str,
        delayed_messages: str,
        lane: str,
        spools: str,
        unique: str,
        unique_messages: str,
        spool: str,
        row: int,
        previous: int,
        delivery: str,
        lane_name: str,
        message: bytes,
        delay: int,
        ttl: int,
        unique_key: str,
        unique_for: int,
        message_id: str,
    ) -> int:
        """Run `take_in.lua`."""
        keys = [wake, delayed, delayed_messages, lane, spools, unique, unique_messages]
        place = [spool, row, previous, delivery, lane_name]
        reservation = [unique_key, unique_for, message_id]
        return self._run("take_in", keys, [*place, message, delay, ttl, *reservation])

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
