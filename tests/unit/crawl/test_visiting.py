from dataclasses import replace

import pytest

from crawl_actors.pages import Page
from crawl_actors.politeness import interval_ms
from crawl_actors.visiting import MAX_HOPS, leads_on, limit_hops, outcome_of

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
