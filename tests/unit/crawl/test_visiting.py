from dataclasses import replace

import pytest
import redis

from crawl_actors.crawls import Crawl
from crawl_actors.frontier import Frontier
from crawl_actors.pages import Page
from crawl_actors.politeness import Politeness, interval_ms
from crawl_actors.robots import Robots
from crawl_actors.scope import Scope
from crawl_actors.settings import CrawlSettings
from crawl_actors.storage import SqliteStorage
from crawl_actors.visiting import MAX_HOPS, TryAgain, leads_on, limit_hops, outcome_of, visit

HTML = Page(url="http://a.example/", status=200, content_type="text/html")
REDIRECT = Page(url="http://a.example/", status=302, redirect_to="http://a.example/b")


@pytest.mark.parametrize(
    "page", [HTML, replace(HTML, status=203), replace(HTML, content_type="application/xhtml+xml")]
)
def test_whole_html_leads_on(page: Page) -> None:
    assert leads_on(page)


def test_redirect_leads_on() -> None:
    assert leads_on(REDIRECT)


@pytest.mark.parametrize(
    "page",
    [
        replace(HTML, content_type="text/plain"),
        replace(HTML, status=404),
        replace(HTML, status=None),
        replace(HTML, error="too_large"),
        replace(REDIRECT, redirect_to=None),
    ],
)
def test_nothing_else_leads_on(page: Page) -> None:
    assert not leads_on(page)


def test_redirect_within_the_limit_is_followed() -> None:
    assert limit_hops(REDIRECT, hops=MAX_HOPS - 1) == REDIRECT


def test_redirect_beyond_the_limit_becomes_an_error_that_names_its_target() -> None:
    page = limit_hops(REDIRECT, hops=MAX_HOPS)

    assert page.error == "too_many_redirects"
    assert page.redirect_to is None
    assert "http://a.example/b" in (page.error_text or "")


@pytest.mark.parametrize(
    ("status", "error", "outcome"),
    [
        (200, None, "ok"),
        (301, None, "redirect"),
        (404, None, "failed"),
        (503, None, "failed"),
        (200, "too_large", "failed"),
        (None, "timeout", "failed"),
        (None, "robots", "excluded"),
    ],
)
def test_page_counts_as_what_became_of_it(
    status: int | None, error: str | None, outcome: str
) -> None:
    assert outcome_of(status=status, error=error) == outcome


@pytest.mark.parametrize(
    "site",
    ["http://localhost:1", "http://a.localhost", "http://127.0.0.1:1", "http://[::1]:1"],
)
def test_this_machine_is_asked_without_delay(site: str) -> None:
    assert interval_ms(site, delay_ms=None, crawl_delay_ms=None) == 0


@pytest.mark.parametrize("site", ["http://a.example", "http://10.0.0.1", "https://localhost.org"])
def test_other_sites_are_asked_ten_times_a_second(site: str) -> None:
    assert interval_ms(site, delay_ms=None, crawl_delay_ms=None) == 100


def test_longest_of_the_wishes_counts() -> None:
    assert interval_ms("http://a.example", delay_ms=20, crawl_delay_ms=3000) == 3000
    assert interval_ms("http://a.example", delay_ms=5000, crawl_delay_ms=3000) == 5000


def test_endless_crawl_delay_is_cut_to_a_minute() -> None:
    assert interval_ms("http://a.example", delay_ms=0, crawl_delay_ms=10**9) == 60_000


class Unreadable:
    """A site whose robots.txt fails as *failure* says; remembers what was asked for."""

    def __init__(self, client: redis.Redis, namespace: str, **failure: object) -> None:
        self.asked: list[str] = []
        self._failure = failure
        where = {"namespace": namespace, "crawl_id": "crawl1"}
        self.crawl = Crawl(
            id="crawl1",
            settings=CrawlSettings(max_retries=1),
            scope=Scope(("a.example",)),
            frontier=Frontier(client, **where),
            politeness=Politeness(client, namespace=namespace),
            robots=Robots(client, **where, user_agent="bot", fetch=self._fetch),
            storage=SqliteStorage("never-opened.sqlite"),
        )

    def _fetch(self, url: str) -> Page:
        self.asked.append(url)
        return Page(url, **self._failure)  # type: ignore[arg-type]


@pytest.mark.parametrize("cause", ["connect", "dns", "timeout"])
def test_page_of_a_site_without_a_connection_is_tried_again_and_then_has_that_error(
    redis_client: redis.Redis, namespace: str, cause: str
) -> None:
    site = Unreadable(redis_client, namespace, error=cause)

    first, last = (visit(site.crawl, HTML.url, attempt=n, slot_ms=0) for n in (0, 1))

    assert isinstance(first, TryAgain)
    assert isinstance(last, Page)
    assert (last.error, last.status) == (cause, None)
    assert last.error_text == f"its robots.txt cannot be read: {cause}"
    assert site.asked == ["http://a.example/robots.txt"]


@pytest.mark.parametrize("cause", ["tls", "unknown_host"])
def test_page_of_a_site_that_stays_unreachable_has_that_error_at_once(
    redis_client: redis.Redis, namespace: str, cause: str
) -> None:
    site = Unreadable(redis_client, namespace, error=cause)

    page = visit(site.crawl, HTML.url, attempt=0, slot_ms=0)

    assert isinstance(page, Page)
    assert page.error == cause


@pytest.mark.parametrize("failure", [{"status": 503}, {"error": "disconnected"}])
def test_page_of_a_site_that_is_there_without_its_rules_says_so(
    redis_client: redis.Redis, namespace: str, failure: dict[str, object]
) -> None:
    site = Unreadable(redis_client, namespace, **failure)

    first, last = (visit(site.crawl, HTML.url, attempt=n, slot_ms=0) for n in (0, 1))

    assert isinstance(first, TryAgain)
    assert isinstance(last, Page)
    assert last.error == "robots_unavailable"
