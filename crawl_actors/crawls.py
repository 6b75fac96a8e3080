"""What an actor needs to work on one crawl, made once per process and crawl."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from crawl_actors.fetching import FetchLimits, fetch
from crawl_actors.frontier import Frontier
from crawl_actors.pages import Page
from crawl_actors.politeness import Politeness, interval_ms
from crawl_actors.robots import MAX_ROBOTS_BYTES, Robots
from crawl_actors.scope import Scope
from crawl_actors.settings import CrawlSettings
from crawl_actors.setup import broker, environment
from crawl_actors.storage import SqliteStorage, Storage
from crawl_actors.urls import site_of

_MOST_CRAWLS = 64


@dataclass(frozen=True, slots=True)
class Crawl:
    """One crawl's rules and rooms."""

    id: str
    settings: CrawlSettings
    scope: Scope
    frontier: Frontier
    politeness: Politeness
    robots: Robots
    storage: Storage

    def fetch(self, url: str) -> Page:
        """Ask for *url* once, within the crawl's limits."""
        limits = FetchLimits(
            deadline_ms=self.settings.deadline_ms, max_body_bytes=self.settings.max_body_bytes
        )
        return fetch(url, limits=limits, user_agent=self.settings.user_agent)


def find_crawl(crawl_id: str) -> Crawl | None:
    """The crawl *crawl_id*, None when it is unknown: given up, or over for days."""
    found = _crawls.get(crawl_id)
    if found is None:
        frontier = frontier_of(crawl_id)
        settings = frontier.settings()
        if settings is None:
            return None
        if len(_crawls) >= _MOST_CRAWLS:
            _crawls.clear()
        found = _crawls.setdefault(crawl_id, _open_crawl(crawl_id, frontier, settings))
    return found


def frontier_of(crawl_id: str) -> Frontier:
    """The frontier of a crawl that may not have begun."""
    return Frontier(broker.client, namespace=environment.namespace, crawl_id=crawl_id)


_crawls: dict[str, Crawl] = {}


def _open_crawl(crawl_id: str, frontier: Frontier, settings: CrawlSettings) -> Crawl:
    politeness = Politeness(broker.client, namespace=environment.namespace)
    return Crawl(
        id=crawl_id,
        settings=settings,
        scope=Scope(settings.allow),
        frontier=frontier,
        politeness=politeness,
        robots=Robots(
            broker.client,
            namespace=environment.namespace,
            crawl_id=crawl_id,
            user_agent=settings.user_agent,
            fetch=partial(_fetch_robots, politeness, settings),
        ),
        storage=_storage(),
    )


def _fetch_robots(politeness: Politeness, settings: CrawlSettings, url: str) -> Page:
    """Ask for a robots.txt; that counts as a request to its site, so the first page comes later."""
    site = site_of(url)
    interval = interval_ms(site, delay_ms=settings.delay_ms, crawl_delay_ms=None)
    politeness.note_start(site, interval_ms=interval)
    limits = FetchLimits(deadline_ms=settings.deadline_ms, max_body_bytes=MAX_ROBOTS_BYTES)
    return fetch(url, limits=limits, user_agent=settings.user_agent)


@cache
def _storage() -> Storage:
    return SqliteStorage(environment.out / "pages.sqlite")
