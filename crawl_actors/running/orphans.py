"""Pages that are open while no message is left that could finish them.

It takes more than a crash: a flushed queue, a server that lost its last second of writes, a message
that killed its workers until the broker gave it up. Such pages are sent again, and given up when
that does not help, so that every crawl ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from dramatiq.common import current_millis
from dramatiq.errors import QueueJoinTimeout
from dramatiq.logging import get_logger

from crawl_actors.actors import store_page
from crawl_actors.actors.sending import fetches
from crawl_actors.frontier import Claim, Frontier, Progress
from crawl_actors.pages import Page
from crawl_actors.setup import QUEUE
from crawl_actors.storage import PageRecord
from dramatiq_streams import StreamsBroker

#: How often a page is sent again before it is stored as an error.
MOST_RESENDS = 2

#: How often storing that error is tried before the crawl has failed.
_MOST_ATTEMPTS = MOST_RESENDS + 3

_QUIET_S = 2.0


class PagesStuck(Exception):
    """Pages can neither be fetched nor stored as errors."""


class Orphans:
    """Looks for orphans of one crawl when nothing has happened for a while."""

    def __init__(self, broker: StreamsBroker, frontier: Frontier, *, crawl_id: str) -> None:
        self._logger = get_logger(__name__, type(self))
        self._broker = broker
        self._frontier = frontier
        self._crawl_id = crawl_id
        self._last: Progress | None = None
        self._look_at = 0.0

    def tend(self, progress: Progress) -> None:
        """Send orphans again, if *progress* has not moved for two seconds.

        Raises:
            PagesStuck: Some were sent again too often.
            BrokerConnectionError: The server cannot be reached.
        """
        if progress != self._last:
            self._last, self._look_at = progress, monotonic() + _QUIET_S
            return
        if monotonic() < self._look_at:
            return
        self._look_at = monotonic() + _QUIET_S
        if not self._is_queue_empty():
            return
        # The queue was empty before this reads what is open, and only messages open pages.
        urls = list(self._frontier.open_urls())
        times = self._frontier.resend(urls)
        if times:
            self._logger.warning("%d open pages had no message; sending them again.", len(times))
        stuck = [url for url, count in times.items() if count > _MOST_ATTEMPTS]
        if stuck:
            raise PagesStuck(
                f"{len(stuck)} pages can neither be fetched nor stored, for instance {stuck[0]}"
            )
        again = [Claim(url) for url, count in times.items() if count <= MOST_RESENDS]
        lost = [url for url, count in times.items() if count > MOST_RESENDS]
        self._broker.enqueue_many(fetches(self._crawl_id, again))
        self._store_lost(lost)

    def _is_queue_empty(self) -> bool:
        try:
            self._broker.join(QUEUE, timeout=1)
        except QueueJoinTimeout:
            return False
        return True

    def _store_lost(self, urls: Sequence[str]) -> None:
        text = f"its message vanished {MOST_RESENDS + 1} times, probably with the worker it killed"
        pages = (
            Page(url=url, error="lost", error_text=text, fetched_at=current_millis())
            for url in urls
        )
        self._broker.enqueue_many(
            store_page.message(
                self._crawl_id,
                PageRecord.from_page(page, crawl_id=self._crawl_id, depth=0).to_message(),
            )
            for page in pages
        )
