"""The file of a spool: a SQLite database in WAL mode that is synced at each commit.

SQLite must not be carried over a fork, not even to be closed: its locks belong to the process that
took them. So every file is closed before a fork, and opens itself again on both sides of it.

The server knows a row by its number and by the identity of the file that it was written in. A copy
must not go on under the identity of its original: their new rows would be taken for each other's.
So a file has a new identity from when it is opened in another place, and whenever it was empty;
rows keep the one that they were written under.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from .errors import SpoolFailed
from .identity import boot_name

#: Marks the file as a spool ("DSsp"); a file of anybody else is left alone.
_APPLICATION_ID = 0x44537370
_SCHEMA_VERSION = 3

#: How long one process waits for another's transaction.
_BUSY_SECONDS = 10.0

_SCHEMA = (
    """CREATE TABLE messages (
        row INTEGER PRIMARY KEY,
        namespace TEXT NOT NULL,
        queue TEXT NOT NULL,
        lane TEXT NOT NULL,
        body BLOB NOT NULL,
        delivery TEXT NOT NULL,
        eta_ms INTEGER,
        reservation TEXT,
        identity TEXT
    )""",
    "CREATE INDEX queues ON messages (namespace, queue, row)",
    # One row: who this file is and where, and what its limits need to know without counting.
    """CREATE TABLE spool (
        identity TEXT NOT NULL,
        last_row INTEGER NOT NULL,
        messages INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        place TEXT
    )""",
    """CREATE TRIGGER added AFTER INSERT ON messages BEGIN
        UPDATE spool SET
            last_row = new.row, messages = messages + 1, bytes = bytes + length(new.body);
    END""",
    """CREATE TRIGGER removed AFTER DELETE ON messages BEGIN
        UPDATE spool SET messages = messages - 1, bytes = bytes - length(old.body);
    END""",
)


#: From each release to the next. A process of the release before, which has the file open, goes on
#: as it was; what it writes then has no identity of its own, but that of the file.
_UPGRADES = {
    1: ("ALTER TABLE messages ADD COLUMN reservation TEXT",),
    2: (
        "ALTER TABLE messages ADD COLUMN identity TEXT",
        "ALTER TABLE spool ADD COLUMN place TEXT",
        "UPDATE messages SET identity = (SELECT identity FROM spool)",
    ),
}


class SpoolFile:
    """One connection to the file at *path*, opened when it is needed, for one thread at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._number = ""
        _Forks.watch(self)

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """The connection, for reading, or for one statement that writes.

        Raises:
            SpoolFailed: The file cannot be opened, read or written.
        """
        try:
            with self._lock:
                yield self._connected()
        except (sqlite3.Error, OSError) as error:
            raise SpoolFailed(f"The spool {self.path!r} cannot be used: {error}.") from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The same, for several statements that have an effect together or none."""
        with self.opened() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    @contextmanager
    def appending(self) -> Iterator[sqlite3.Connection]:
        """A transaction that adds messages, under an identity that no copy of the file has."""
        with self.transaction() as connection:
            # Whoever was copied while it was empty, even with the process that has it open.
            connection.execute("UPDATE spool SET identity = ? WHERE messages = 0", (_new_name(),))
            yield connection

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        with self._lock:
            self._close()

    def before_fork(self) -> None:
        """Wait for the other threads and close the file; nobody can open it until `after_fork`."""
        self._lock.acquire()
        self._close()

    def after_fork(self) -> None:
        """Let the file be opened again, in the parent and in the child."""
        self._lock.release()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._number != _number_of(self.path):
            self._close()  # Another file is there now: in this one nobody would find a message.
        if self._connection is None:
            _make(self.path)
            self._number = _number_of(self.path)
            self._connection = _open(self.path, f"{boot_name()} {self._number}")
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Forks:
    """Closes the files of this process around a fork."""

    _files: ClassVar[weakref.WeakSet[SpoolFile]] = weakref.WeakSet()
    _closed: ClassVar[list[SpoolFile]] = []
    _is_registered: ClassVar[bool] = False

    @classmethod
    def watch(cls, file: SpoolFile) -> None:
        """Close *file* before each fork from now on."""
        cls._files.add(file)
        if not cls._is_registered:
            cls._is_registered = True
            os.register_at_fork(
                before=cls._before, after_in_parent=cls._after, after_in_child=cls._after
            )

    @classmethod
    def _before(cls) -> None:
        for file in list(cls._files):
            file.before_fork()
            cls._closed.append(file)

    @classmethod
    def _after(cls) -> None:
        while cls._closed:
            cls._closed.pop().after_fork()


def _new_name() -> str:
    return uuid.uuid4().hex


def _number_of(path: str) -> str:
    """What tells the file from all others that are on this machine now."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return ""
    return f"{status.st_dev} {status.st_ino}"


def _open(path: str, place: str) -> sqlite3.Connection:
    """Open the file, under a new identity if its *place* was another one before."""
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        _prepare(connection, place)
    except BaseException:
        connection.close()
        raise
    return connection


def _make(path: str) -> None:
    """Make an empty file that only its owner can read, unless there is one.

    Never opened under its own name: closing it would release the locks of another connection.
    """
    if os.path.exists(path):
        return
    descriptor, made = tempfile.mkstemp(prefix=os.path.basename(path), dir=os.path.dirname(path))
    os.close(descriptor)
    try:
        os.link(made, path)
    except FileExistsError:
        return  # another process was faster
    finally:
        os.unlink(made)


def _prepare(connection: sqlite3.Connection, place: str) -> None:
    # In one transaction, so that of several processes one makes the tables. The mode cannot be
    # changed in a transaction, and is kept in the file.
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            _create(connection)
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        while application == _APPLICATION_ID and version in _UPGRADES:
            for statement in _UPGRADES[version]:
                connection.execute(statement)
            version += 1
            connection.execute(f"PRAGMA user_version = {version}")
        if (application, version) == (_APPLICATION_ID, _SCHEMA_VERSION):
            connection.execute(
                "UPDATE spool SET identity = ?, place = ? WHERE place IS NOT ?",
                (_new_name(), place, place),
            )
    if (application, version) != (_APPLICATION_ID, _SCHEMA_VERSION):
        raise sqlite3.DatabaseError("it is a database of something else, or of another release")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def _create(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO spool VALUES (?, 0, 0, 0, NULL)", (_new_name(),))
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
