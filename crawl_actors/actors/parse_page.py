"""The actor that follows a page's links."""

from __future__ import annotations

from typing import Any

import dramatiq

from crawl_actors.actors.options import PAGE_OPTIONS
from crawl_actors.actors.sending import current_token, fetches
from crawl_actors.actors.store_page import store_page
from crawl_actors.crawls import find_crawl
from crawl_actors.expansion import expand_page
from crawl_actors.pages import Page
from crawl_actors.parsing import Parsed, parse
from crawl_actors.setup import PARSE_PRIORITY, QUEUE, broker
from crawl_actors.storage import PageRecord


@dramatiq.actor(queue_name=QUEUE, priority=PARSE_PRIORITY, **PAGE_OPTIONS)
def parse_page(crawl_id: str, page: dict[str, Any], hops: int) -> None:
    """Send what *page* links or redirects to, then its record; *hops* redirects led to it."""
    crawl = find_crawl(crawl_id)
    if crawl is None:
        return
    fetched, token = Page.from_message(page), current_token()
    if fetched.redirect_to is None:
        parsed = parse(fetched)
        claims = expand_page(crawl, fetched.url, parsed.links, token=token)
    else:
        parsed, target = Parsed(), fetched.redirect_to
        claims = expand_page(crawl, fetched.url, [target], token=token, step=0, hops=hops + 1)
    if claims is None:
        return
    record = PageRecord.from_page(fetched, crawl_id=crawl_id, depth=0, parsed=parsed)
    # The claims first: once the page is stored and finished, nobody sends them any more.
    store = store_page.message(crawl_id, record.to_message(), token)
    broker.enqueue_many([*fetches(crawl_id, claims), store])
