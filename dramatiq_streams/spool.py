"""The spool: messages that could not be sent, in a file that threads and processes share.

It knows nothing of the server: `draining` moves its messages there. Rows are numbered by the clock,
in microseconds and always upwards, so that a file that was restored from a backup does not use the
number of a row again that was sent before.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .errors import SpoolFailed
from .spool_file import SpoolFile
from .uniqueness import Reservation

_ADD = """
INSERT INTO messages (row, namespace, queue, lane, body, delivery, eta_ms, reservation, identity)
SELECT max(last_row + 1, :now_us), :namespace, :queue, :lane, :body, :delivery, :eta_ms,
    :reservation, identity
FROM spool WHERE messages < :max_messages AND bytes + length(:body) <= :max_bytes
"""
_OLDEST = """
SELECT queue, lane, body, delivery, eta_ms, row, reservation,
    ifnull(identity, (SELECT identity FROM spool))
FROM messages WHERE namespace = ? AND queue = ? ORDER BY row LIMIT ?
"""

#: Of the very message, since another file may be there now.
_REMOVE = "DELETE FROM messages WHERE row = ?1 AND ifnull(identity, ?2) = ?2"


@dataclass(frozen=True, slots=True)
class Spooled:
    """A message as it waits in a spool."""

    queue_name: str
    lane_name: str
    body: bytes = field(repr=False)
    #: Names the delivery of a delayed message, also when it is sent again.
    delivery_id: str
    #: When it is due, by this machine's clock in milliseconds; None when it is not delayed.
    eta_ms: int | None
    #: Its place in the spool; zero before it has one.
    row: int = 0
    #: The unique key that it is to have when it is taken in.
    reservation: Reservation | None = None
    #: The file that it was written in: a copy of that is another one, whose rows are others.
    identity: str = ""


class Spool:
    """The messages of one namespace in the file at *path*, made when it is first used."""

    def __init__(self, path: str, *, namespace: str, max_messages: int, max_bytes: int) -> None:
        self.path = path
        self._file = SpoolFile(path)
        self._namespace = namespace
        self._limits = {"max_messages": max_messages, "max_bytes": max_bytes}

    def add(self, messages: Iterable[Spooled]) -> bool:
        """Append *messages*, all or none; then they survive a crash of this machine.

        Returns:
            False when they would exceed the limits.

        Raises:
            SpoolFailed: The file cannot be written.
        """
        with self._file.appending() as connection:
            for message in messages:
                if not connection.execute(_ADD, self._values(message)).rowcount:
                    connection.rollback()
                    return False
        return True

    def holds(self, queue_names: Iterable[str]) -> bool:
        """Whether a message of one of *queue_names* waits here.

        Raises:
            SpoolFailed: The file cannot be read.
        """
        query = "SELECT 1 FROM messages WHERE namespace = ? AND queue = ? LIMIT 1"
        with self._file.opened() as connection:
            return any(
                connection.execute(query, (self._namespace, name)).fetchone()
                for name in queue_names
            )

    def queue_names(self) -> list[str]:
        """The queues that have messages here."""
        query = "SELECT DISTINCT queue FROM messages WHERE namespace = ?"
        with self._file.opened() as connection:
            return [name for (name,) in connection.execute(query, (self._namespace,))]

    def oldest(self, queue_name: str, limit: int, *, max_bytes: int) -> list[Spooled]:
        """The first messages of a queue in their order: at least one, while there are any.

        All have the same identity.
        """
        found: list[Spooled] = []
        size = 0
        with self._file.opened() as connection:
            rows = connection.execute(_OLDEST, (self._namespace, queue_name, limit))
            for message in map(_spooled, rows):
                size += len(message.body)
                if found and (size > max_bytes or message.identity != found[0].identity):
                    break
                found.append(message)
        return found

    def remove(self, messages: Sequence[Spooled]) -> None:
        """Delete what the server has confirmed."""
        with self._file.transaction() as connection:
            rows = [(message.row, message.identity) for message in messages]
            connection.executemany(_REMOVE, rows)

    def size(self) -> tuple[int, int]:
        """How many messages there are, of all namespaces, and how many bytes they have."""
        with self._file.opened() as connection:
            messages, size = connection.execute("SELECT messages, bytes FROM spool").fetchone()
        return messages, size

    @contextmanager
    def reserved(self) -> Iterator[bool]:
        """Whether this process, and no other, may drain the spool for as long as this lasts.

        Raises:
            SpoolFailed: There cannot be a lock file beside the spool.
        """
        # Such locks end with their process and are not inherited. Several brokers of one process
        # can have it at the same time, which costs work and does no harm.
        lock = f"{self.path}-drain"
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SpoolFailed(f"The spool {self.path!r} cannot be used: {error}.") from error
        try:
            yield _is_locked(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        self._file.close()

    def _values(self, message: Spooled) -> dict[str, object]:
        return {
            "now_us": time.time_ns() // 1000,
            "namespace": self._namespace,
            "queue": message.queue_name,
            "lane": message.lane_name,
            "body": message.body,
            "delivery": message.delivery_id,
            "eta_ms": message.eta_ms,
            "reservation": message.reservation.packed() if message.reservation else None,
            **self._limits,
        }


def _spooled(row: Sequence[Any]) -> Spooled:
    queue_name, lane_name, body, delivery_id, eta_ms, number, packed, identity = row
    reservation = None if packed is None else Reservation.unpacked(packed)
    return Spooled(queue_name, lane_name, body, delivery_id, eta_ms, number, reservation, identity)


def _is_locked(descriptor: int) -> bool:
    """Lock the file unless another process has."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
