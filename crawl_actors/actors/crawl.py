"""The first actor of a crawl."""

from __future__ import annotations

from typing import Any

import dramatiq
from dramatiq.logging import get_logger

from crawl_actors.actors.sending import current_token, fetches
from crawl_actors.crawls import frontier_of
from crawl_actors.frontier import Claim
from crawl_actors.seeding import scoped_settings, seed_urls
from crawl_actors.settings import CrawlSettings
from crawl_actors.setup import QUEUE, broker


@dramatiq.actor(queue_name=QUEUE, throws=(ValueError,), min_backoff=1_000, max_backoff=60_000)
def crawl(url: str, **settings: Any) -> None:
    """Crawl from *url*; *settings* are those of `CrawlSettings`.

    The crawl is named after the message's id.
    A wrong URL or setting is logged and the message goes to the dead letters.
    """
    logger = get_logger(__name__)
    try:
        seeds = seed_urls([url])
        rules = scoped_settings(CrawlSettings.from_dict(settings), seeds)
    except ValueError as error:
        logger.error("This crawl cannot begin: %s.", error)
        raise
    crawl_id = current_token()
    todo = frontier_of(crawl_id).start(rules, seeds)
    logger.info("Crawl %r begins at %r.", crawl_id, seeds[0])
    broker.enqueue_many(fetches(crawl_id, map(Claim, todo)))
