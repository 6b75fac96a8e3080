import json
import multiprocessing
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crawl_actors.pages import Page
from crawl_actors.parsing import Parsed
from crawl_actors.storage import PageRecord, SqliteStorage, Storage, Summary

FORK = multiprocessing.get_context("fork")
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "pages.sqlite"


@pytest.fixture
def storage(path: Path) -> Iterator[SqliteStorage]:
    storage = SqliteStorage(path)
    yield storage
    storage.close()


def record(number: int = 1, **fields: object) -> PageRecord:
    defaults = {"url": f"http://example.com/{number}", "crawl_id": "c", "depth": 1, "status": 200}
    return PageRecord(**{**defaults, **fields})  # type: ignore[arg-type]


def rows(path: Path, columns: str = "*") -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(f"SELECT {columns} FROM pages ORDER BY url").fetchall()
    finally:
        connection.close()


def exported(storage: Storage, folder: Path, crawl_id: str = "c") -> list[dict[str, object]]:
    target = folder / "pages.jsonl"
    storage.export_jsonl(target, crawl_id)
    return [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]


def test_a_record_says_what_the_page_and_its_markup_said() -> None:
    page = Page(
        "http://example.com/",
        status=200,
        content_type="text/html",
        body=b"hello",
        elapsed_ms=7,
        fetched_at=1_700_000_000_000,
    )
    parsed = Parsed(links=("http://example.com/a", "http://example.com/b"), title="T", text="hello")

    made = PageRecord.from_page(page, crawl_id="c", depth=3, parsed=parsed)

    assert (made.url, made.crawl_id, made.depth) == ("http://example.com/", "c", 3)
    assert (made.status, made.content_type, made.bytes) == (200, "text/html", 5)
    assert (made.title, made.text, made.links) == ("T", "hello", 2)
    assert made.sha256 == "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert made.fetched_at == made.version == 1_700_000_000_000


def test_a_record_of_a_page_without_a_body_has_no_digest() -> None:
    page = Page("http://example.com/", error="timeout", error_text="too slow")

    made = PageRecord.from_page(page, crawl_id="c", depth=0)

    assert (made.sha256, made.title, made.text, made.links) == (None, None, None, 0)
    assert (made.error, made.error_text) == ("timeout", "too slow")


def test_a_record_survives_its_way_through_a_message() -> None:
    made = record(body=b"\0\xff" * 100, bytes=200, title="é", text="\u2028", redirect_to=None)

    assert PageRecord.from_message(json.loads(json.dumps(made.to_message()))) == made


def test_the_same_record_twice_is_one_row(storage: SqliteStorage, path: Path) -> None:
    saved = [storage.save(record(version=5, title="same")) for _ in range(2)]

    assert saved == [True, True]
    assert rows(path, "url, title, version") == [("http://example.com/1", "same", 5)]


def test_a_newer_version_replaces_an_older_one_and_never_the_reverse(
    storage: SqliteStorage, path: Path
) -> None:
    assert storage.save(record(version=5, title="first", crawl_id="a"))
    assert not storage.save(record(version=4, title="late", crawl_id="b"))
    assert rows(path, "title, version, crawl_id") == [("first", 5, "a")]

    assert storage.save(record(version=6, title="second", crawl_id="b", status=None))
    assert rows(path, "title, version, crawl_id, status") == [("second", 6, "b", None)]


def test_the_sums_are_those_of_one_crawl(storage: SqliteStorage) -> None:
    storage.save(record(1, bytes=10, fetched_at=100))
    storage.save(record(2, bytes=5, fetched_at=50, status=404))
    storage.save(record(3, status=None, error="timeout", fetched_at=200))
    storage.save(record(4, status=200, error="too_large", bytes=1, fetched_at=150))
    storage.save(record(5, crawl_id="other", bytes=1_000, fetched_at=1))

    assert storage.summary("c") == Summary(
        pages=4,
        statuses={200: 1, 404: 1},
        bytes=16,
        errors={"timeout": 1, "too_large": 1},
        first_ms=50,
        last_ms=200,
    )


def test_a_crawl_that_stored_nothing_has_empty_sums(storage: SqliteStorage, tmp_path: Path) -> None:
    assert storage.summary("c") == Summary()
    assert list(storage.urls("c")) == []
    assert exported(storage, tmp_path) == []


def test_urls_are_those_of_one_crawl_sorted(storage: SqliteStorage) -> None:
    for number in (3, 1, 2):
        storage.save(record(number))
    storage.save(record(4, crawl_id="other"))

    assert list(storage.urls("c")) == [f"http://example.com/{number}" for number in (1, 2, 3)]


def test_depths_are_corrected_downwards_only(storage: SqliteStorage, path: Path) -> None:
    for number in (1, 2, 3):
        storage.save(record(number, depth=5))
    storage.save(record(4, depth=5, crawl_id="other"))
    depths = {f"http://example.com/{number}": depth for number, depth in [(1, 2), (2, 9), (4, 1)]}

    changed = storage.set_depths("c", depths)

    assert changed == 1
    assert rows(path, "depth") == [(2,), (5,), (5,), (5,)]
    assert storage.set_depths("c", {}) == 0


def test_the_export_has_one_line_a_page_sorted_and_without_bodies(
    storage: SqliteStorage, tmp_path: Path
) -> None:
    storage.save(record(2, text="line\nbreak \u2028 é", body=b"secret", bytes=6))
    storage.save(record(1, status=None, error="dns"))
    storage.save(record(3, crawl_id="other"))

    lines = exported(storage, tmp_path)

    assert [line["url"] for line in lines] == ["http://example.com/1", "http://example.com/2"]
    assert lines[1]["text"] == "line\nbreak \u2028 é"
    assert (lines[0]["status"], lines[0]["error"]) == (None, "dns")
    assert all("body" not in line for line in lines)
    assert storage.export_jsonl(tmp_path / "pages.jsonl", "c") == 2


def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(
    storage: SqliteStorage, tmp_path: Path, path: Path
) -> None:
    storage.save(record(1))
    out = tmp_path / "out"
    storage.export_jsonl(out / "pages.jsonl", "c")
    before = (out / "pages.jsonl").read_bytes()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE pages SET text = x'ff'")  # bytes, which JSON has no word for
    connection.commit()
    connection.close()

    with pytest.raises(TypeError):
        storage.export_jsonl(out / "pages.jsonl", "c")

    assert (out / "pages.jsonl").read_bytes() == before
    assert [one.name for one in out.iterdir()] == ["pages.jsonl"]


def test_an_export_is_not_disturbed_by_writers(storage: SqliteStorage, tmp_path: Path) -> None:
    for number in range(200):
        storage.save(record(number, version=1))
    stopped = threading.Event()

    def write() -> None:
        version = 2
        while not stopped.is_set():
            storage.save(record(version % 200, version=version))
            version += 1

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        counts = [storage.export_jsonl(tmp_path / "pages.jsonl", "c") for _ in range(10)]
        stopped.set()
        writing.result(10)

    assert counts == [200] * 10


def test_text_that_is_not_unicode_is_kept_as_far_as_it_is(
    storage: SqliteStorage, path: Path
) -> None:
    storage.save(record(error_text="a\ud800b", title="\0"))

    assert rows(path, "error_text, title") == [("a?b", "\0")]


def _write(path: Path, worker: int, start: object) -> None:
    start.wait(30)  # type: ignore[attr-defined]
    storage = SqliteStorage(path)
    for number in range(50):
        storage.save(record(number, version=worker, title=f"by {worker}", body=b"x" * 5_000))
    storage.close()


def test_processes_that_start_together_lose_nothing(path: Path) -> None:
    start = SPAWN.Event()
    workers = [SPAWN.Process(target=_write, args=(path, number, start)) for number in range(6)]
    for worker in workers:
        worker.start()
    start.set()
    for worker in workers:
        worker.join(50)

    assert [worker.exitcode for worker in workers] == [0] * 6
    assert rows(path, "title, version") == [("by 5", 5)] * 50


def test_threads_write_at_the_same_time(storage: SqliteStorage, path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        saved = list(pool.map(lambda number: storage.save(record(number)), range(200)))

    assert all(saved)
    assert len(rows(path)) == 200


def _save_in_fork(storage: SqliteStorage, number: int) -> None:
    storage.save(record(number))
    os._exit(0)


# A fork of a process with threads is what is tried here; Python 3.12 and later warn of it.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_does_not_use_its_parents_connection(storage: SqliteStorage, path: Path) -> None:
    storage.save(record(0))
    children = [FORK.Process(target=_save_in_fork, args=(storage, number)) for number in (1, 2, 3)]
    for child in children:
        child.start()
    for child in children:
        child.join(30)
    storage.save(record(4))

    assert [child.exitcode for child in children] == [0, 0, 0]
    assert len(rows(path)) == 5
    assert rows_are_sound(path)


def _die_while_writing(path: Path, ready: object) -> None:
    storage = SqliteStorage(path)
    storage.save(record(1))
    with storage._file.writing() as connection:
        connection.execute("UPDATE pages SET title = 'half'")
        ready.set()  # type: ignore[attr-defined]
        signal.pause()


def test_a_writer_that_is_killed_leaves_no_half_and_no_lock(
    storage: SqliteStorage, path: Path
) -> None:
    ready = SPAWN.Event()
    writer = SPAWN.Process(target=_die_while_writing, args=(path, ready))
    writer.start()
    assert ready.wait(30)
    writer.kill()
    writer.join(30)

    assert storage.save(record(2))
    assert rows(path, "title") == [(None,), (None,)]
    assert rows_are_sound(path)


def rows_are_sound(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


def test_a_storage_that_was_closed_opens_again(storage: SqliteStorage) -> None:
    storage.save(record(1))
    storage.close()
    storage.close()

    assert storage.summary("c").pages == 1


def test_making_a_storage_touches_nothing(path: Path) -> None:
    SqliteStorage(path)

    assert not path.parent.exists()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pages.sqlite"
    path.write_text("something else entirely " * 100)

    with pytest.raises(ValueError, match=r"pages\.sqlite cannot hold pages"):
        SqliteStorage(path).summary("c")


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=tmp_path.name):
        SqliteStorage(tmp_path).summary("c")


def test_a_schema_of_another_version_is_refused(storage: SqliteStorage, path: Path) -> None:
    storage.save(record(1))
    storage.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(ValueError, match="schema version 99"):
        storage.save(record(2))
