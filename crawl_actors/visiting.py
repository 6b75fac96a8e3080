"""One visit to a URL: whether and when it may be asked for, the request, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import sleep, time

from dramatiq.common import compute_backoff

from crawl_actors.crawls import Crawl
from crawl_actors.pages import Page
from crawl_actors.politeness import Slot, interval_ms
from crawl_actors.urls import site_of

#: As many redirects in a row as browsers follow.
MAX_HOPS = 20

_FIRST_BACKOFF_MS = 1_000
_LONGEST_BACKOFF_MS = 5 * 60_000
_SITE_IS_BUSY = frozenset({429, 503})
# What keeps robots.txt from being read, and would keep any page of its site.
_NO_CONNECTION = frozenset({"connect", "dns", "timeout", "tls", "unknown_host"})


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The visit failed in a way that may pass; *reason* is for the log."""

    delay_ms: int
    reason: str


def visit(crawl: Crawl, url: str, *, attempt: int, slot_ms: int) -> Page | Slot | TryAgain:
    """Ask for *url* if it may be asked for now.

    Args:
        attempt: How many visits failed before.
        slot_ms: The instant reserved by an earlier call, 0 without one.

    Returns:
        The page, which may be an error to record; the slot to come back at; or when to try again.
    """
    crawl_delay_ms = None
    if crawl.settings.obey_robots:
        answer = crawl.robots.check(url)
        if answer.unavailable:
            page = _without_rules(url, answer.cause)
            return _again_or(page, crawl, attempt) if _may_pass(page) else page
        if not answer.allowed:
            return _refused(url, "robots", "robots.txt does not allow it")
        crawl_delay_ms = answer.delay_ms
    site = site_of(url)
    interval = interval_ms(site, delay_ms=crawl.settings.delay_ms, crawl_delay_ms=crawl_delay_ms)
    slot = crawl.politeness.reserve(site, interval_ms=interval, slot_ms=slot_ms)
    if not slot.starts:
        return slot
    sleep(slot.wait_ms / 1000)
    page = crawl.fetch(url)
    if not page.is_retryable:
        return page
    outcome = _again_or(page, crawl, attempt)
    if page.status in _SITE_IS_BUSY:
        crawl.politeness.close(site, pause_ms=_delay_ms(page, attempt))
    return outcome


def leads_on(page: Page) -> bool:
    """True for a redirect and for HTML that arrived whole: what may name further URLs."""
    is_success = page.status is not None and 200 <= page.status < 300
    return page.redirect_to is not None or (is_success and page.error is None and page.is_html)


def limit_hops(page: Page, *, hops: int) -> Page:
    """*page*, as an error when it is one redirect too many after *hops* others."""
    if page.redirect_to is None or hops < MAX_HOPS:
        return page
    return replace(
        page,
        redirect_to=None,
        error="too_many_redirects",
        error_text=f"more than {MAX_HOPS} redirects in a row, the last one to {page.redirect_to}",
    )


def outcome_of(*, status: int | None, error: str | None) -> str:
    """What a stored page counts as: `ok`, `redirect`, `excluded` or `failed`."""
    if error == "robots":
        return "excluded"
    if error is not None or status is None or status >= 400:
        return "failed"
    return "redirect" if status >= 300 else "ok"


def _without_rules(url: str, cause: str | None) -> Page:
    """What becomes of *url* when its site's rules could not be read because of *cause*."""
    because = f": {cause}" if cause else ""
    error = cause if cause in _NO_CONNECTION else None
    return _refused(url, error or "robots_unavailable", f"its robots.txt cannot be read{because}")


def _may_pass(page: Page) -> bool:
    return page.is_retryable or page.error == "robots_unavailable"


def _again_or(page: Page, crawl: Crawl, attempt: int) -> Page | TryAgain:
    if attempt >= crawl.settings.max_retries:
        return page
    reason = page.error_text or page.error or f"status {page.status}"
    return TryAgain(delay_ms=_delay_ms(page, attempt), reason=f"{page.url}: {reason}")


def _delay_ms(page: Page, attempt: int) -> int:
    _, backoff_ms = compute_backoff(
        attempt, factor=_FIRST_BACKOFF_MS, max_backoff=_LONGEST_BACKOFF_MS
    )
    return max(backoff_ms, page.retry_after_ms or 0)


def _refused(url: str, error: str, text: str) -> Page:
    return Page(url=url, error=error, error_text=text, fetched_at=int(time() * 1000))
