"""A worker that is stopped before it writes, loses its key, and goes on unknowing."""

import os
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from dramatiq.message import Message

from dramatiq_streams import StreamsBroker
from tests.conftest import StartCommand
from tests.faults.journal import Journal
from tests.support.cli import DramatiqCommand
from tests.support.databases import Database
from tests.support.waiting import wait_until

_ROOT = Path(__file__).parents[2]
_SOURCE = f"""
import sys
sys.path.append({str(_ROOT)!r})
from tests.faults.writer import broker
"""
_SCHEMA = "CREATE TABLE pages (url TEXT PRIMARY KEY, writer INTEGER, version BIGINT NOT NULL)"

StartWriter = Callable[[], DramatiqCommand]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


@pytest.fixture
def start_writer(cli: StartCommand, journal: Journal, database: Database) -> StartWriter:
    """Starts a worker process with one thread, which runs `writer.save`."""

    def start() -> DramatiqCommand:
        settings = {
            "TEST_DIRECTORY": str(journal.directory),
            "TEST_DATABASE_KIND": database.kind,
            "TEST_DATABASE_PLACE": database.place,
        }
        return cli(_SOURCE, threads=1, environment=settings)

    return start


@pytest.mark.slow
def test_late_write_of_a_zombie_loses_against_the_newer_one(
    broker: StreamsBroker, database: Database, journal: Journal, start_writer: StartWriter
) -> None:
    with closing(database.connect()) as connection:
        connection.execute(_SCHEMA)
        connection.commit()
    zombie = start_writer()
    (pid,) = zombie.worker_pids
    journal.allow("hold")
    broker.enqueue(Message("default", "save", ("https://example.com/",), {}, {}))
    wait_until(lambda: journal.counts("started"), message="it has its token, and has not written")

    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, message="stopped")
    (successor,) = start_writer().worker_pids
    written = _outcome(journal, "accepted")
    journal.allow("go")
    os.kill(pid, signal.SIGCONT)
    late = _outcome(journal, "refused")

    assert (written[0], late[0]) == (successor, pid)
    assert late[1] < written[1]
    with closing(database.connect()) as connection:
        rows = connection.execute("SELECT writer, version FROM pages").fetchall()
    assert rows == [written]
    broker.join("default", timeout=10_000)
    assert [note.event.partition(":")[0] for note in journal.notes()] == [
        "started",
        "accepted",
        "refused",
    ]


def _outcome(journal: Journal, outcome: str) -> tuple[int, int]:
    """Who wrote with this *outcome*, and with which token, once somebody has."""

    def found() -> list[tuple[int, int]]:
        notes = [(note.pid, *note.event.partition(":")[::2]) for note in journal.notes()]
        return [(pid, int(token)) for pid, event, token in notes if event == outcome]

    return wait_until(found, timeout=20, message=f"a write was {outcome}")[0]
