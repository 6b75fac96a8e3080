"""Waits until a crawl is over: keeps its workers running and tells how far it is."""

from __future__ import annotations

import time
from time import monotonic

import redis
from dramatiq.errors import BrokerConnectionError

from crawl_actors.frontier import Frontier, Progress
from crawl_actors.running.display import Display, finished_pages
from crawl_actors.running.orphans import Orphans
from crawl_actors.running.rate import Rate
from crawl_actors.running.workers import Workers
from dramatiq_streams import StreamsError

#: What a server in trouble raises, whoever talks to it.
SERVER_TROUBLE = (BrokerConnectionError, StreamsError, redis.RedisError)

#: How long the server may be away in the middle of a crawl.
LONGEST_OUTAGE_S = 60.0

_TICK_S = 0.1


class ServerGone(Exception):
    """The server stayed away for longer than `LONGEST_OUTAGE_S`."""


class StateLost(Exception):
    """The server no longer holds the crawl: it was flushed, or ran out of memory and evicted it."""


class Watch:
    """Sees one crawl to its end."""

    def __init__(
        self, frontier: Frontier, *, workers: Workers, orphans: Orphans, display: Display
    ) -> None:
        self._frontier = frontier
        self._workers = workers
        self._orphans = orphans
        self._display = display
        self._rate = Rate()
        self._last = Progress(is_known=True, seen=0, open=0, counts={})
        self._away_since: float | None = None

    def until_over(self) -> None:
        """Return when no page of the crawl is open any more.

        Raises:
            ServerGone: The server was away for too long.
            WorkersFailed: The workers end as soon as they are started.
            PagesStuck: Pages can neither be fetched nor stored.
            StateLost: The server no longer holds the crawl.
        """
        while not self._look():
            time.sleep(_TICK_S)

    def _look(self) -> bool:
        note = ""
        try:
            self._last = self._frontier.progress()
            if not self._last.is_known:
                raise StateLost(
                    "the crawl's state has vanished from the server: was it flushed, or does it"
                    " evict keys? Begin anew with --restart"
                )
            if self._last.open == 0:
                return True
            self._orphans.tend(self._last)
            self._away_since = None
        except SERVER_TROUBLE as error:
            note = f"waiting for the server: {error}"
            self._endure(error)
        done = finished_pages(self._last)
        self._workers.tend(finished=done)
        self._display.show(self._last, rate=self._rate.measure(done), note=note)
        return False

    def _endure(self, error: Exception) -> None:
        if self._away_since is None:
            self._away_since = monotonic()
        if monotonic() - self._away_since > LONGEST_OUTAGE_S:
            raise ServerGone(
                f"the server could not be reached for {LONGEST_OUTAGE_S:.0f} s: {error}"
            )
