"""The record of one key, and all that there is of it as lines that can be compared."""

from __future__ import annotations

from typing import Any

import redis

from dramatiq_streams.connections import Connections
from dramatiq_streams.executor import Executor
from tests.scripts.shard import AllScripts
from tests.support.servers import Server

#: Times that tests give are far below; those of the server are after 2001.
_FIRST_SERVER_MS = 10**12
TTL_MS = 100_000
LEASE_MS = 10_000


class Recorded:
    """The record of the key `k`, the index of running keys, and the scripts for both."""

    def __init__(self, server: Server, namespace: str) -> None:
        of_admin = Connections(url=server.admin_url, client=None, parameters={})
        self.client: redis.Redis = of_admin.client()
        of_broker = Connections(url=server.url, client=None, parameters={})
        self._executor: Executor = of_broker.shared()
        self.scripts = AllScripts(self._executor)
        self._tag = f"{{{namespace}:idempotency}}"
        self.record = self.record_of("k")
        self.running = f"{self._tag}:running"

    def record_of(self, key: str) -> str:
        """The record of another key."""
        return f"{self._tag}:record:{key}"

    def close(self) -> None:
        """Disconnect."""
        self._executor.close()
        self.client.close()

    def seed(self, state: str, *, lease_ms: int = 0, **fields: Any) -> None:
        """Write the record as it is after its message has come so far; its token is 7."""
        known: Any = {"state": state, "arguments": "args", "message_id": "first", "token": "7"}
        if state == "running":
            end_ms = self.now() + lease_ms
            known |= {"owner": "me", "lease_end_ms": str(end_ms)}
            self.client.zadd(self.running, {"k": end_ms})
        self.client.hset(self.record, mapping=known | fields)
        self.client.pexpire(self.record, TTL_MS)

    def look(self, *, arguments: str = "args", message: str = "mine") -> list[Any]:
        return self.scripts.record_look(
            record=self.record, arguments=arguments, message=message, ttl=TTL_MS
        )

    def start(self, *, arguments: str = "args", owner: str = "mine") -> list[Any]:
        return self.scripts.record_start(
            record=self.record,
            running=self.running,
            key="k",
            arguments=arguments,
            message="second",
            owner=owner,
            consumer="process",
            lease=LEASE_MS,
            ttl=TTL_MS,
        )

    def finish(self, token: int, state: str = "done", *, result: bytes = b"") -> int:
        return self.scripts.record_finish(
            record=self.record,
            running=self.running,
            key="k",
            token=token,
            state=state,
            arguments="args",
            message="second",
            result=result,
            ttl=2 * TTL_MS,
        )

    def keep(self, *held: tuple[str, str]) -> list[int]:
        return self.scripts.record_keep(
            running=self.running,
            records=[self.record_of(key) for key, _ in held],
            lease=LEASE_MS,
            held=[[key, token, TTL_MS] for key, token in held],
        )

    def now(self) -> int:
        """The server's clock, in milliseconds."""
        seconds, microseconds = self.client.time()
        return int(seconds * 1000 + microseconds // 1000)

    def fields(self, key: str = "k") -> dict[str, str]:
        """The record; what the server's clock has made reads `now`, or `later`."""
        found: Any = self.client.hgetall(self.record_of(key))
        return {name.decode(): self._written(value.decode()) for name, value in found.items()}

    def held(self) -> dict[str, str]:
        """The index of running keys."""
        found: Any = self.client.zrange(self.running, 0, -1, withscores=True)
        return {key.decode(): self._written(f"{score:.0f}") for key, score in found}

    def ttl_ms(self, key: str = "k") -> int:
        """How long the record is kept, to the tenth of a ttl."""
        return round(self.client.pttl(self.record_of(key)), -4)

    def _written(self, value: str) -> str:
        if not value.isdigit() or int(value) < _FIRST_SERVER_MS:
            return value
        if int(value) > 1000 * _FIRST_SERVER_MS:
            return "micros"
        return "later" if int(value) > self.now() + LEASE_MS / 2 else "now"
