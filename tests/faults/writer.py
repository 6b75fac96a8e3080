"""A worker's module: an actor whose write to an SQL table is guarded by its fencing token.

The first to run it after the test has allowed `hold` waits for `go` before it writes.
"""

import os
from contextlib import closing
from pathlib import Path

import dramatiq

from dramatiq_streams import StreamsBroker, VersionedTable
from dramatiq_streams.middleware import Idempotency, current_fencing_token
from tests.support.databases import Database
from tests.support.waiting import wait_until

from .journal import Journal

LEASE_MS = 1_000
PAGES = VersionedTable("pages", keys=["url"], values=["writer"])

journal = Journal(Path(os.environ["TEST_DIRECTORY"]))
database = Database(os.environ["TEST_DATABASE_KIND"], os.environ["TEST_DATABASE_PLACE"])
broker = StreamsBroker(
    url=os.environ["TEST_URL"],
    namespace=os.environ["TEST_NAMESPACE"],
    lease=LEASE_MS,
    middleware=[Idempotency(lease=LEASE_MS)],
)
dramatiq.set_broker(broker)


@dramatiq.actor(idempotency_key=True)
def save(url: str) -> None:
    """Write who fetched *url*, and note whether that was accepted."""
    token = current_fencing_token()
    if journal.use_up("hold"):
        journal.note(url, "started")
        wait_until(lambda: journal.is_allowed("go"), timeout=60, message="it may go on")
    with closing(database.connect()) as connection:
        accepted = PAGES.write(connection, {"url": url, "writer": os.getpid()}, token=token)
        connection.commit()
    journal.note(url, f"accepted:{token}" if accepted else f"refused:{token}")
