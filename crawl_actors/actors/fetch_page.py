"""The actor that makes one request."""

from __future__ import annotations

import dramatiq
from dramatiq.errors import Retry

from crawl_actors.actors.options import PAGE_OPTIONS
from crawl_actors.actors.parse_page import parse_page
from crawl_actors.actors.sending import current_attempt
from crawl_actors.actors.store_page import store_page
from crawl_actors.crawls import find_crawl
from crawl_actors.politeness import Slot
from crawl_actors.setup import QUEUE
from crawl_actors.storage import PageRecord
from crawl_actors.visiting import TryAgain, leads_on, limit_hops, visit


@dramatiq.actor(queue_name=QUEUE, **PAGE_OPTIONS)
def fetch_page(crawl_id: str, url: str, slot_ms: int = 0, slot_attempt: int = 0) -> None:
    """Ask for *url* if it is still open; *slot_ms* was reserved for attempt *slot_attempt*."""
    crawl = find_crawl(crawl_id)
    hops = None if crawl is None else crawl.frontier.hops(url)
    if crawl is None or hops is None:
        return
    attempt = current_attempt()
    outcome = visit(crawl, url, attempt=attempt, slot_ms=slot_ms if slot_attempt == attempt else 0)
    if isinstance(outcome, Slot):
        args = (crawl_id, url, outcome.at_ms, attempt)
        fetch_page.send_with_options(args=args, delay=outcome.wait_ms, retries=attempt)
        return
    if isinstance(outcome, TryAgain):
        raise Retry(outcome.reason, delay=outcome.delay_ms)
    page = limit_hops(outcome, hops=hops)
    if leads_on(page):
        parse_page.send(crawl_id, page.to_message(), hops)
    else:
        record = PageRecord.from_page(page, crawl_id=crawl_id, depth=0)
        store_page.send(crawl_id, record.to_message())
