"""The record of each key, on the broker's own server: what ran, what runs, with which token.

All keys carry one hash tag, so that each script touches one slot.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ...executor import Executor
from ...keys import record_keys
from .scripts import RecordScripts

#: The most records that one call prolongs.
KEEP_LIMIT = 200

#: How many records are fetched at once.
PAGE = 100


class State(StrEnum):
    """How far the work under a key has come."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Request:
    """A message that wants to run under a key; *arguments* is their hash."""

    key: str
    arguments: str
    message_id: str
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Free:
    """Nothing is in the way."""


@dataclass(frozen=True, slots=True)
class Started:
    """The message may run, and has this token."""

    token: int


@dataclass(frozen=True, slots=True)
class Done:
    """It was done before, by *message_id*; *result* is what was kept to be replayed."""

    message_id: str
    result: bytes | None


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody runs *message_id* under it, and has a lease for so many milliseconds.

    Empty where another one was about to start, whose message is not known.
    """

    left_ms: int
    message_id: str = ""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The key belongs to *message_id*, which has other arguments."""

    message_id: str


Standing = Free | Started | Done | Busy | Conflict


@dataclass(frozen=True, slots=True)
class Record:
    """What the server knows of a key; times are server milliseconds, None before they come.

    *arguments* is the hash of those that it is for: empty when it was freed.
    """

    key: str
    state: State
    arguments: str
    token: int | None
    attempts: int
    owner: str
    consumer: str
    message_id: str
    created_ms: int | None
    started_ms: int | None
    finished_ms: int | None
    lease_end_ms: int | None

    @property
    def is_free(self) -> bool:
        """Whether it was freed, for a message with any arguments."""
        return self.state is State.PENDING and not self.arguments


class Records:
    """The records of one namespace and prefix."""

    def __init__(self, executor: Executor, *, namespace: str, prefix: str) -> None:
        self._executor = executor
        self._scripts = RecordScripts(executor)
        self._keys = record_keys(namespace, prefix)

    def lock_key(self, key: str) -> str:
        """What the lock of *key* is called on its masters."""
        return self._keys.lock(key)

    def look(self, request: Request) -> Standing:
        """Whether *request* may run, without starting it; its record is there afterwards."""
        return _standing(
            self._scripts.record_look(
                record=self._keys.record(request.key),
                arguments=request.arguments,
                message=request.message_id,
                ttl=request.ttl_ms,
            )
        )

    def start(self, request: Request, *, owner: str, consumer: str, lease_ms: int) -> Standing:
        """Start *request* and give it a token, unless something is in the way now.

        Repeating it with the same *owner* gives the same token.
        """
        return _standing(
            self._scripts.record_start(
                record=self._keys.record(request.key),
                running=self._keys.running,
                key=request.key,
                arguments=request.arguments,
                message=request.message_id,
                owner=owner,
                consumer=consumer,
                lease=lease_ms,
                ttl=request.ttl_ms,
            )
        )

    def keep(self, held: Sequence[tuple[Request, int]], *, lease_ms: int) -> list[int]:
        """Prolong what runs, each request with its token.

        Returns:
            The positions in *held*, from 0, of what somebody else has by now.
        """
        lost: list[int] = []
        for start in range(0, len(held), KEEP_LIMIT):
            chunk = held[start : start + KEEP_LIMIT]
            positions = self._scripts.record_keep(
                running=self._keys.running,
                records=[self._keys.record(request.key) for request, _ in chunk],
                lease=lease_ms,
                held=([request.key, str(token), request.ttl_ms] for request, token in chunk),
            )
            lost += [start + position - 1 for position in positions]
        return lost

    def complete(self, request: Request, *, token: int, result: bytes | None = None) -> bool:
        """Note that *request* is done; False if a newer token was given since it started."""
        return self._finish(request, State.DONE, token=token, result=result)

    def fail(self, request: Request, *, token: int) -> bool:
        """Note that *request* has failed, so that others may run; False as for `complete`."""
        return self._finish(request, State.FAILED, token=token)

    def held(self) -> list[Record]:
        """What runs, and what died while it ran, by key."""
        return list(self.each_held())

    def each_held(self, *, after: str = "") -> Iterator[Record]:
        """What `held` lists, from behind the key *after*; the records are fetched as asked for.

        In the order of the keys: every lease that is prolonged changes the order of the leases,
        and a walk along these would miss keys or never end.
        """
        names = self._executor.execute("ZRANGE", self._keys.running, 0, -1)
        keys = sorted(name.decode() for name in names)
        left = keys[bisect_right(keys, after) :]
        for start in range(0, len(left), PAGE):
            page = left[start : start + PAGE]
            replies = self._executor.execute_many(
                [("HGETALL", self._keys.record(key)) for key in page]
            )
            # A record may have expired, or come to its end just now.
            pairs = zip(page, replies, strict=True)
            found = (_read(key, _mapping(reply)) for key, reply in pairs if reply)
            yield from (record for record in found if record.state is State.RUNNING)

    def show(self, key: str) -> Record | None:
        """The record of *key*, if there is one."""
        reply = self._executor.execute("HGETALL", self._keys.record(key))
        return _read(key, _mapping(reply)) if reply else None

    def release(self, key: str) -> bool:
        """Free *key*, whatever became of it, for the next message; False if it is free already.

        Its lock, if somebody holds it, is not touched: its holder lets it go when it notices, at
        the latest after a third of its lease. What the holder completes later is refused.
        """
        reset = self._scripts.record_reset(
            record=self._keys.record(key), running=self._keys.running, key=key
        )
        return reset == 1

    def close(self) -> None:
        """Disconnect; a later call connects again."""
        self._executor.close()

    def _finish(
        self, request: Request, state: State, *, token: int, result: bytes | None = None
    ) -> bool:
        noted = self._scripts.record_finish(
            record=self._keys.record(request.key),
            running=self._keys.running,
            key=request.key,
            token=token,
            state=state.value,
            arguments=request.arguments,
            message=request.message_id,
            result=result or b"",
            ttl=request.ttl_ms,
        )
        return noted == 1


def _standing(reply: Sequence[Any]) -> Standing:
    kind, details = reply[0], reply[1:]
    if kind == b"started":
        return Started(int(details[0]))
    if kind == b"done":
        return Done(details[0].decode(), details[1] or None)
    if kind == b"busy":
        return Busy(int(details[0]), details[1].decode())
    if kind == b"conflict":
        return Conflict(details[0].decode())
    return Free()


def _mapping(flat: Sequence[bytes]) -> dict[str, bytes]:
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _read(key: str, fields: Mapping[str, bytes]) -> Record:
    def text(name: str) -> str:
        return fields.get(name, b"").decode()

    def number(name: str) -> int | None:
        return int(fields[name]) if name in fields else None

    return Record(
        key=key,
        state=State(text("state")),
        arguments=text("arguments"),
        token=number("token"),
        attempts=number("attempts") or 0,
        owner=text("owner"),
        consumer=text("consumer"),
        message_id=text("message_id"),
        created_ms=number("created_ms"),
        started_ms=number("started_ms"),
        finished_ms=number("finished_ms"),
        lease_end_ms=number("lease_end_ms"),
    )
