"""One SQLite file and its connections: one for each thread of each process.

WAL lets readers and one writer work at the same time; writers wait for each other. What is said
about pages is in `storage`.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tenacity import retry, retry_if_exception, stop_after_delay, wait_random_exponential

SCHEMA_VERSION: Final = 1
_BUSY_TIMEOUT_MS: Final = 60_000

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS pages (
    url TEXT PRIMARY KEY,
    crawl_id TEXT NOT NULL,
    depth INTEGER NOT NULL,
    status INTEGER,
    content_type TEXT,
    bytes INTEGER NOT NULL,
    title TEXT,
    text TEXT,
    body BLOB NOT NULL,
    sha256 TEXT,
    redirect_to TEXT,
    error TEXT,
    error_text TEXT,
    links INTEGER NOT NULL,
    fetched_at INTEGER NOT NULL,
    elapsed_ms INTEGER NOT NULL,
    version INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS pages_by_crawl ON pages (crawl_id, url);
"""


def _is_busy(error: BaseException) -> bool:
    if not isinstance(error, sqlite3.OperationalError):
        return False
    # The low byte is the primary code; the rest says why.
    return (error.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class SqliteFile:
    """Connections to the file at *path*; it and its folder are made when missing.

    Its methods raise ValueError, naming the file, when it is no database of this schema or cannot
    be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._local = threading.local()
        # Strong references, also to what a fork inherited: closing a parent's connection in the
        # child, even by garbage collection, would touch files whose locks the child does not hold.
        self._opened: list[tuple[int, sqlite3.Connection]] = []

    def connection(self) -> sqlite3.Connection:
        """This thread's connection in this process, in autocommit mode."""
        if getattr(self._local, "pid", None) != os.getpid():
            connection = self._open()
            self._opened.append((os.getpid(), connection))
            self._local.connection, self._local.pid = connection, os.getpid()
        found: sqlite3.Connection = self._local.connection
        return found

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that has the right to write from its start; waits for other writers."""
        connection = self.connection()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.rollback()
            raise
        connection.commit()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees one state of the file throughout."""
        connection = self.connection()
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.rollback()

    def close(self) -> None:
        """Close the connections of this process; using the file again opens new ones."""
        mine = [connection for pid, connection in self._opened if pid == os.getpid()]
        self._opened = [one for one in self._opened if one[0] != os.getpid()]
        self._local = threading.local()
        for connection in mine:
            connection.close()

    # The change to WAL answers "locked" at once, without waiting, when several processes try it.
    @retry(
        retry=retry_if_exception(_is_busy),
        wait=wait_random_exponential(multiplier=0.01, max=0.5),
        stop=stop_after_delay(_BUSY_TIMEOUT_MS / 1000),
        reraise=True,
    )
    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _connected(self.path)
        except sqlite3.DatabaseError as error:
            if _is_busy(error):
                raise
            raise ValueError(f"{self.path} cannot hold pages: {error}") from error


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        timeout=_BUSY_TIMEOUT_MS / 1000,
        isolation_level=None,
        # `SqliteFile.close` is called by one thread for all of them.
        check_same_thread=False,
    )
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # A crash of the machine may lose the last transactions, a crash of a process none.
    connection.execute("PRAGMA synchronous = NORMAL")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == SCHEMA_VERSION:
        return
    if version != 0:
        raise ValueError(
            f"{path} has schema version {version}; this program knows {SCHEMA_VERSION}: "
            "use the program that wrote it, or another file"
        )
    connection.executescript(
        f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )
