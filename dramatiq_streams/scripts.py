"""The scripts of queues and their deliveries: one typed method for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .calls import ScriptCalls, encoded, encoded_once


class Scripts(ScriptCalls):
    """What senders and workers run."""

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
        return self._run("ack", keys, [group, consumer, encoded(acks)])

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

    def begin(self, *, lane: str, group: str, consumer: str, entry: str, deliveries: int) -> int:
        """Run `begin.lua`."""
        return self._run("begin", [lane], [group, consumer, entry, deliveries])

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

    def ensure_groups(self, *, paused: str, wake: str, lanes: Sequence[str], group: str) -> int:
        """Run `ensure_groups.lua`."""
        return self._run("ensure_groups", [paused, wake, *lanes], [group])

    def extend(
        self, *, lanes: Sequence[str], group: str, consumer: str, held: Iterable[Any]
    ) -> list[int]:
        """Run `extend.lua`."""
        return self._run("extend", [*lanes], [group, consumer, encoded(held)])

    def forget(
        self,
        *,
        consumers: str,
        connections: str,
        host: str,
        wake: str,
        delayed: str,
        lanes: Sequence[str],
        group: str,
        consumer: str,
        heartbeat: str,
    ) -> int:
        """Run `forget.lua`."""
        keys = [consumers, connections, host, wake, delayed, *lanes]
        return self._run("forget", keys, [group, consumer, heartbeat])

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

    def purge(
        self,
        *,
        delayed: str,
        delayed_messages: str,
        dead: str,
        dead_expiries: str,
        cancelled: str,
        unique: str,
        unique_messages: str,
        wake: str,
        lanes: Sequence[str],
        group: str,
    ) -> list[int]:
        """Run `purge.lua`."""
        keys = [delayed, delayed_messages, dead, dead_expiries]
        keys += [cancelled, unique, unique_messages, wake, *lanes]
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
        work = [
            encoded_once(tuple(shares)),
            encoded(acks),
            encoded_once(tuple(lane_names)),
            *options,
        ]
        return self._run("read", keys, [*reader, *work])

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
        return self._run("release", [wake, *lanes], [group, consumer, released, encoded(entries)])

    def release_dead(
        self,
        *,
        consumers: str,
        wake: str,
        dead: str,
        dead_expiries: str,
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
        ttls: Mapping[str, int],
        most: int,
    ) -> list[int]:
        """Run `release_dead.lua`."""
        suspect = [group, consumer, released, heartbeat, limit]
        judgement = [max_deliveries, encoded(lane_names), ttl, encoded(ttls), most]
        keys = [consumers, wake, dead, dead_expiries, unique, unique_messages, *lanes]
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
        arguments = [group, consumer, released, encoded(held), limit]
        return self._run("release_unheld", [wake, *lanes], arguments)

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
        arguments = [group, consumer, encoded(lane_names), encoded(entries)]
        keys = [cancelled, counts, unique, unique_messages, *lanes]
        return self._run("screen", keys, arguments)

    def size(self, *, delayed: str, lanes: Sequence[str]) -> int:
        """Run `size.lua`."""
        return self._run("size", [delayed, *lanes], [])

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

    def tend(
        self,
        *,
        consumers: str,
        connections: str,
        host: str,
        wake: str,
        delayed: str,
        dead: str,
        dead_expiries: str,
        unique: str,
        unique_messages: str,
        lanes: Sequence[str],
        consumer: str,
        ids: str,
        identity: str,
        host_ttl: int,
        late: int,
        late_limit: int,
        group: str,
        released: str,
        lease: int,
        latest: int,
        cursors: Sequence[str],
        limit: int,
        max_deliveries: int,
        lane_names: Sequence[str],
        ttl: int,
        ttls: Mapping[str, int],
        most: int,
    ) -> list[Any]:
        """Run `tend.lua`."""
        places = [consumers, connections, host, wake, delayed]
        places += [dead, dead_expiries, unique, unique_messages]
        alive = [consumer, ids, identity, host_ttl, late, late_limit]
        scan = [group, released, lease, latest, encoded(cursors), limit]
        judgement = [max_deliveries, encoded(lane_names), ttl, encoded(ttls), most]
        return self._run("tend", [*places, *lanes], [*alive, *scan, *judgement])
