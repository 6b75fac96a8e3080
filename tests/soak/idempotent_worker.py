"""A worker process of the idempotency stress; run as a program: `python FILE SETTINGS`, in JSON.

Each message writes a row under its fencing token, as slowly as its number says, and some fail.
What a process tried to write, and whether the table took it, is in its journal: a line each,
written at once, so that nothing is lost with the process.
"""

import json
import logging
import os
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

import dramatiq
import dramatiq.worker
from dramatiq.middleware import AgeLimit

from dramatiq_streams import StreamsBroker, VersionedTable
from dramatiq_streams.middleware import Idempotency, current_fencing_token

TABLE = VersionedTable("pages", keys=["key"], values=["writer"], version="token")


def create_table(path: Path) -> None:
    """The table that all processes write."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE pages (key TEXT PRIMARY KEY, writer TEXT, token INTEGER)")
    connection.close()


class Pages:
    """What the actor does."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._path = settings["table"]
        self._journal = Path(settings["journals"], f"{os.getpid()}")
        self._lease_seconds = settings["lease"] / 1000
        self._connections = threading.local()

    def write(self, key: str, number: int) -> None:
        """Write the row of *key*."""
        token = current_fencing_token()
        self._note(f"start {key} {token}")
        self._work(number)
        if number % 13 == 0 and token % 2:
            raise RuntimeError("fails now and then")
        is_written = TABLE.write(
            self._connection(), {"key": key, "writer": str(os.getpid())}, token=token
        )
        self._note(f"{'wrote' if is_written else 'refused'} {key} {token}")

    def _work(self, number: int) -> None:
        if number % 50 == 0:  # Longer than a lease, which is extended meanwhile.
            time.sleep(1.5 * self._lease_seconds)
        else:
            time.sleep(number % 7 / 100)

    def _connection(self) -> sqlite3.Connection:
        if not hasattr(self._connections, "made"):
            self._connections.made = sqlite3.connect(
                self._path, timeout=60, isolation_level=None, check_same_thread=False
            )
        made: sqlite3.Connection = self._connections.made
        return made

    def _note(self, line: str) -> None:
        with self._journal.open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())


def make_broker(settings: dict[str, Any]) -> StreamsBroker:
    """The broker of the stress, in any of its processes."""
    broker = StreamsBroker(
        url=settings["url"],
        namespace=settings["namespace"],
        lease=settings["broker_lease"],
        disconnect_grace=settings["broker_lease"],
        max_deliveries=1_000,
    )
    broker.add_middleware(
        Idempotency(masters=settings["masters"], lease=settings["lease"]), before=AgeLimit
    )
    return broker


def declare(broker: StreamsBroker, settings: dict[str, Any]) -> dramatiq.Actor[..., Any]:
    """Its only actor."""
    declared = dramatiq.actor(
        broker=broker,
        actor_name="write",
        idempotency_key="{key}",
        max_retries=None,
        min_backoff=50,
        max_backoff=500,
    )
    return declared(Pages(settings).write)


def main(settings: dict[str, Any]) -> None:
    """Work until SIGTERM."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(message)s")
    logging.getLogger("dramatiq.worker").setLevel(logging.CRITICAL)
    dramatiq.worker.CONSUMER_RESTART_DELAY_SECS = 0.1
    dramatiq.worker.POST_PROCESS_MESSAGE_RETRY_DELAY_SECS = 1
    broker = make_broker(settings)
    declare(broker, settings)
    worker = dramatiq.Worker(broker, worker_threads=settings["threads"], worker_timeout=100)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    worker.start()
    Path(settings["journals"], f"{os.getpid()}").touch()
    ended.wait()
    worker.stop(timeout=20_000)
    broker.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
