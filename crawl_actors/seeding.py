"""How a crawl begins: from what a user wrote to URLs to fetch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from crawl_actors.robots_rules import product_token
from crawl_actors.scope import Scope
from crawl_actors.settings import CrawlSettings
from crawl_actors.urls import MAX_URL_LENGTH, canonical_url


def seed_urls(seeds: Iterable[str]) -> list[str]:
    """The normal forms of *seeds*, each once.

    Raises:
        ValueError: One is no http or https URL, or there is none.
    """
    urls: dict[str, None] = {}
    for seed in seeds:
        url = canonical_url(seed)
        if url is None:
            raise ValueError(
                f"{seed!r} cannot be crawled: it must be an http or https URL"
                f" of at most {MAX_URL_LENGTH} characters, like 'https://example.com/docs/'"
            )
        urls[url] = None
    if not urls:
        raise ValueError("a crawl needs at least one URL to begin with")
    return list(urls)


def scoped_settings(settings: CrawlSettings, seeds: Iterable[str]) -> CrawlSettings:
    """*settings* with the hosts of *seeds* allowed when nothing is.

    Raises:
        ValueError: An entry of `allow` is neither host, wildcard nor URL prefix, or the user agent
            has no name that a robots.txt could mention.
    """
    product_token(settings.user_agent)
    scope = Scope(settings.allow) if settings.allow else Scope.for_seeds(seeds)
    return dataclasses.replace(settings, allow=scope.allow)
