"""Where pages go: a small Protocol, and SQLite behind it."""

import json
import os
import secrets
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

from crawl_actors.storage_records import PageRecord, Summary
from crawl_actors.storage_sqlite import SqliteFile

__all__ = ["PageRecord", "SqliteStorage", "Storage", "Summary"]

_COLUMNS: Final = tuple(field.name for field in fields(PageRecord))
_EXPORTED: Final = tuple(name for name in _COLUMNS if name != "body")
_SAVE: Final = (
    f"INSERT INTO pages ({', '.join(_COLUMNS)}) "
    f"VALUES ({', '.join(f':{name}' for name in _COLUMNS)}) "
    "ON CONFLICT (url) DO UPDATE SET "
    f"{', '.join(f'{name} = excluded.{name}' for name in _COLUMNS if name != 'url')} "
    "WHERE excluded.version >= pages.version"
)
# JSON leaves these as they are; many programs, Python's splitlines among them, end a line there.
_LINE_BREAKS: Final = {ord(one): f"\\u{ord(one):04x}" for one in "\x85\u2028\u2029"}


class Storage(Protocol):
    """A place for pages that many workers write to at the same time."""

    def save(self, record: PageRecord) -> bool:
        """Keep *record* unless a newer version of its page is kept already; True when kept.

        Saving the same record again changes nothing.
        """

    def summary(self, crawl_id: str) -> Summary:
        """The sums over what *crawl_id* stored."""

    def urls(self, crawl_id: str) -> Iterator[str]:
        """The URLs that *crawl_id* stored, sorted."""

    def set_depths(self, crawl_id: str, depths: Mapping[str, int]) -> int:
        """Correct the depths of pages that turned out to be nearer; returns how many changed."""

    def export_jsonl(self, path: str | os.PathLike[str], crawl_id: str) -> int:
        """Write the pages of *crawl_id* to *path*, one JSON object a line; returns how many.

        Sorted by URL; texts are included, bodies are not. *path* is replaced at once or not at all.
        """

    def close(self) -> None:
        """Close every connection of this process."""


class SqliteStorage:
    """Pages in one SQLite file, written to by any number of threads and processes of one machine.

    A page belongs to the crawl that fetched it last. Nothing is opened before it is needed, so it
    may be made before a fork.

    Args:
        path: The file; it and its folder are made when missing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = SqliteFile(path)

    def save(self, record: PageRecord) -> bool:
        """See `Storage.save`."""
        with self._file.writing() as connection:
            return connection.execute(_SAVE, _row(record)).rowcount == 1

    def summary(self, crawl_id: str) -> Summary:
        """See `Storage.summary`."""
        with self._file.reading() as connection:
            pages, size, first_ms, last_ms = connection.execute(
                "SELECT count(*), coalesce(sum(bytes), 0), min(fetched_at), max(fetched_at) "
                "FROM pages WHERE crawl_id = ?",
                (crawl_id,),
            ).fetchone()
            statuses = _counts(connection, "status", crawl_id, where="error IS NULL")
            errors = _counts(connection, "error", crawl_id)
        return Summary(
            pages=pages,
            statuses=statuses,
            bytes=size,
            errors=errors,
            first_ms=first_ms,
            last_ms=last_ms,
        )

    def urls(self, crawl_id: str) -> Iterator[str]:
        """See `Storage.urls`."""
        rows = self._file.connection().execute(
            "SELECT url FROM pages WHERE crawl_id = ? ORDER BY url", (crawl_id,)
        )
        return (url for (url,) in rows)

    def set_depths(self, crawl_id: str, depths: Mapping[str, int]) -> int:
        """See `Storage.set_depths`."""
        with self._file.writing() as connection:
            return connection.executemany(
                "UPDATE pages SET depth = ?2 WHERE url = ?3 AND crawl_id = ?1 AND depth > ?2",
                [(crawl_id, depth, url) for url, depth in depths.items()],
            ).rowcount

    def export_jsonl(self, path: str | os.PathLike[str], crawl_id: str) -> int:
        """See `Storage.export_jsonl`."""
        target = Path(path).absolute()
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                count = _write(file, self._lines(crawl_id))
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return count

    def close(self) -> None:
        """See `Storage.close`."""
        self._file.close()

    def _lines(self, crawl_id: str) -> Iterator[str]:
        # One SELECT sees one state of the file, whatever is written meanwhile.
        rows = self._file.connection().execute(
            f"SELECT {', '.join(_EXPORTED)} FROM pages WHERE crawl_id = ? ORDER BY url", (crawl_id,)
        )
        for row in rows:
            line = json.dumps(dict(zip(_EXPORTED, row, strict=True)), ensure_ascii=False)
            yield line.translate(_LINE_BREAKS) + "\n"


def _row(record: PageRecord) -> dict[str, Any]:
    row = {name: getattr(record, name) for name in _COLUMNS}
    row["body"] = zlib.compress(record.body)
    # SQLite takes no lone surrogates, which JSON can carry.
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in row.items()
    }


def _write(file: TextIO, lines: Iterator[str]) -> int:
    """Write *lines* through to the disk; returns how many."""
    count = 0
    for line in lines:
        file.write(line)
        count += 1
    file.flush()
    os.fsync(file.fileno())
    return count


def _counts(
    connection: sqlite3.Connection, column: str, crawl_id: str, *, where: str = "TRUE"
) -> dict[Any, int]:
    rows = connection.execute(
        f"SELECT {column}, count(*) FROM pages "
        f"WHERE crawl_id = ? AND {column} IS NOT NULL AND {where} "
        f"GROUP BY {column} ORDER BY {column}",
        (crawl_id,),
    )
    return dict(rows.fetchall())
