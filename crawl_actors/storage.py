"""Where pages go: a small Protocol, and SQLite behind it."""

import os
from collections.abc import Iterator, Mapping
from typing import Protocol

from crawl_actors.storage_records import PageRecord, Summary

__all__ = ["PageRecord", "SqliteStorage", "Storage", "Summary"]


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
    """Pages in one SQLite file, written to by any number of threads and processes.

    Args:
        path: The file; it and its folder are made when missing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        raise NotImplementedError

    def save(self, record: PageRecord) -> bool:
        """See `Storage.save`."""
        raise NotImplementedError

    def summary(self, crawl_id: str) -> Summary:
        """See `Storage.summary`."""
        raise NotImplementedError

    def urls(self, crawl_id: str) -> Iterator[str]:
        """See `Storage.urls`."""
        raise NotImplementedError

    def set_depths(self, crawl_id: str, depths: Mapping[str, int]) -> int:
        """See `Storage.set_depths`."""
        raise NotImplementedError

    def export_jsonl(self, path: str | os.PathLike[str], crawl_id: str) -> int:
        """See `Storage.export_jsonl`."""
        raise NotImplementedError

    def close(self) -> None:
        """See `Storage.close`."""
        raise NotImplementedError
