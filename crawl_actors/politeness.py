"""When a site may next be asked: one rhythm per site for all workers, on the server's clock.

A slot is an instant reserved for one request. Whoever has to wait for its slot comes back then and
shows it; nobody sleeps here.
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


@dataclass(frozen=True, slots=True)
class Slot:
    """The instant at which a request may start, and how long that is from now."""

    at_ms: int
    wait_ms: int


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
        """The next free slot of *site*; one reserved before is kept unless the site has closed.

        Args:
            slot_ms: `Slot.at_ms` of that earlier reservation, 0 without one.
        """
        args = [interval_ms, slot_ms]
        at_ms, wait_ms = run_script(self._client, "reserve", keys=[self._key(site)], args=args)
        return Slot(at_ms=at_ms, wait_ms=wait_ms)

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
