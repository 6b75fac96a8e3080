"""The actor that is told when another has failed for good."""

from __future__ import annotations

from typing import Any

import dramatiq
from dramatiq.common import current_millis

from crawl_actors.actors.sending import fetches
from crawl_actors.actors.store_page import store_page
from crawl_actors.crawls import find_crawl
from crawl_actors.pages import Page
from crawl_actors.setup import QUEUE, broker
from crawl_actors.storage import PageRecord


@dramatiq.actor(queue_name=QUEUE, min_backoff=1_000, max_backoff=60_000)
def give_up(message: dict[str, Any], retries: dict[str, int]) -> None:
    """Store an error in place of the page that *message* was about, so that the crawl can end.

    The message itself is among the dead letters. *retries* is dramatiq's count.
    """
    crawl_id, subject, *rest = message["args"]
    crawl = find_crawl(crawl_id)
    if crawl is None:
        return
    url = subject if isinstance(subject, str) else subject["url"]
    is_stored = message["actor_name"] == "store_page"
    token = (rest[0] if rest else "") if is_stored else message["message_id"]
    *_, last_line = message["options"].get("traceback", "").strip().splitlines() or [""]
    page = Page(
        url=url,
        error="internal",
        error_text=f"{message['actor_name']} failed {retries['retries'] + 1} times: {last_line}",
        fetched_at=current_millis(),
    )
    record = PageRecord.from_page(page, crawl_id=crawl_id, depth=0)
    store = store_page.message(crawl_id, record.to_message(), token)
    # What the message had claimed but perhaps not sent is sent in its place.
    broker.enqueue_many([*fetches(crawl_id, crawl.frontier.claims(url, token=token)), store])
