"""When a site may next be asked: one rhythm per site for all workers, on the server's clock.

A slot is an instant reserved for one request. Whoever has to wait for its slot comes back then and
shows it; nobody sleeps here. A slot that is shown too late is worth nothing, so what piled up while
nobody worked is spread again, and no request starts sooner than the interval after the last start.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

import redis

from crawl_actors.scripts import run_script

#: Between two requests to one site, when the crawl's settings do not say.
DEFAULT_DELAY_MS = 100

#: A longer Crawl-delay is not meant for a crawl that is to end.
MAX_CRAWL_DELAY_MS = 60_000

#: So late after its slot a request may come whatever the interval.
_LEAST_TOLERANCE_MS = 50

#: A wait too short for another message: the caller sleeps.
_PATIENCE_MS = 50


@dataclass(frozen=True, slots=True)
class Slot:
    """The instant reserved for a request, and how long from now it may start.

    *starts*: after this wait, which is short or none, without another look; its start is noted.
    """

    at_ms: int
    wait_ms: int
    starts: bool


def interval_ms(site: str, *, delay_ms: int | None, crawl_delay_ms: int | None) -> int:
    """The time between two requests to *site*, as `scheme://host`.

    Args:
        delay_ms: What the settings say; None is no delay for loopback and 100 ms for others.
        crawl_delay_ms: What robots.txt says; counts when longer, up to a minute.
    """
    if delay_ms is None:
        delay_ms = 0 if _is_loopback(site) else DEFAULT_DELAY_MS
    return max(delay_ms, min(crawl_delay_ms or 0, MAX_CRAWL_DELAY_MS))


class Politeness:
    """Reserves slots per site.

    Args:
        client: Any Redis client.
        namespace: First part of the keys; crawls that share it share the rhythm.
    """

    def __init__(self, client: redis.Redis, *, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def reserve(self, site: str, *, interval_ms: int, slot_ms: int = 0) -> Slot:
        """The next free slot of *site*, or the one reserved before, if this is in time for it.

        In time is up to half an interval late, 50 ms at least, and not before the site has closed.

        Args:
            slot_ms: `Slot.at_ms` of that earlier reservation, 0 without one.
        """
        tolerance_ms = max(interval_ms // 2, _LEAST_TOLERANCE_MS)
        args = [interval_ms, slot_ms, tolerance_ms, _PATIENCE_MS]
        keys = [self._key(site)]
        at_ms, wait_ms, starts = run_script(self._client, "reserve", keys=keys, args=args)
        return Slot(at_ms=at_ms, wait_ms=wait_ms, starts=bool(starts))

    def note_start(self, site: str, *, interval_ms: int) -> None:
        """Count a request that starts now, without a slot; the next one comes after it."""
        run_script(self._client, "note_start", keys=[self._key(site)], args=[interval_ms])

    def close(self, site: str, *, pause_ms: int) -> None:
        """Let nobody ask *site* for *pause_ms*; it said so, with Retry-After for instance."""
        run_script(self._client, "close", keys=[self._key(site)], args=[pause_ms])

    def _key(self, site: str) -> str:
        return f"{{{self._namespace}:site:{site}}}"


def _is_loopback(site: str) -> bool:
    host = urlsplit(site).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
