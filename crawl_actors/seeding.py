"""How a crawl begins: from what a user wrote to URLs to fetch."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Final

from crawl_actors.robots_rules import product_token
from crawl_actors.scope import Scope
from crawl_actors.settings import CrawlSettings
from crawl_actors.urls import MAX_URL_LENGTH, canonical_url, has_credentials

# Browsers read `http:///x` as `http://x/`; from a person it is a slip.
_NAMES_A_HOST: Final = re.compile(r"\s*https?://[^/\\]", re.IGNORECASE)


def seed_urls(seeds: Iterable[str]) -> list[str]:
    """The normal forms of *seeds*, each once.

    Raises:
        ValueError: One is no http or https URL, or has a user name or password, or there is none.
    """
    urls: dict[str, None] = {}
    for seed in seeds:
        url = canonical_url(seed) if _NAMES_A_HOST.match(seed) else None
        if url is not None and has_credentials(seed):
            raise ValueError(
                f"{url!r} with a user name or password cannot be crawled: credentials in URLs are"
                " not supported"
            )
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
    """*settings* with the hosts and ports of *seeds* allowed when nothing is.

    Raises:
        ValueError: An entry of `allow` is neither host, wildcard nor URL prefix, or the user agent
            has no name that a robots.txt could mention.
    """
    product_token(settings.user_agent)
    scope = Scope(settings.allow) if settings.allow else Scope.for_seeds(seeds)
    return dataclasses.replace(settings, allow=scope.allow)
