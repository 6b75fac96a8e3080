"""The actor that keeps a page and finishes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dramatiq
from dramatiq.logging import get_logger

from crawl_actors.actors.options import PAGE_OPTIONS
from crawl_actors.crawls import find_crawl
from crawl_actors.setup import QUEUE, STORE_PRIORITY
from crawl_actors.storage import PageRecord
from crawl_actors.visiting import outcome_of


@dramatiq.actor(queue_name=QUEUE, priority=STORE_PRIORITY, **PAGE_OPTIONS)
def store_page(crawl_id: str, record: dict[str, Any], token: str = "") -> None:
    """Store *record*, then finish its page; *token* is the message that followed its links."""
    crawl = find_crawl(crawl_id)
    if crawl is None:
        return
    page = PageRecord.from_message(record)
    outcome = outcome_of(status=page.status, error=page.error)
    depth = crawl.frontier.depth_to_store(page.url, token=token)
    while depth is not None:
        crawl.storage.save(replace(page, depth=depth))
        finish = crawl.frontier.finish(
            page.url, token=token, depth=depth, outcome=outcome, body_bytes=page.bytes
        )
        if finish.is_first and finish.open == 0:
            get_logger(__name__).info("Crawl %r is over.", crawl_id)
        # A page that came nearer since is stored again with its new depth.
        depth = finish.depth if finish.depth != depth else None
