"""From a page's links to the URLs to fetch, with depths kept right everywhere."""

from __future__ import annotations

from collections.abc import Iterable

from crawl_actors.crawls import Crawl
from crawl_actors.frontier import Claim


def expand_page(
    crawl: Crawl, page: str, links: Iterable[str], *, token: str, step: int = 1, hops: int = 0
) -> tuple[Claim, ...] | None:
    """Claim what *links* lead to within the crawl's scope and limits.

    Pages that come nearer by these links are corrected in the storage, and their own links are
    looked at again, before this returns: so nothing of it is left when *page* is finished.

    Args:
        token: The id of the message at work on *page*; it gets the same claims when it runs again.
        step: Clicks from the page to its links; 0 for a redirect.
        hops: Redirects in a row that led to the links.

    Returns:
        The URLs to fetch; None when the page is finished or another message is at work on it.
    """
    inside = [link for link in links if crawl.scope.contains(link)]
    expansion = crawl.frontier.expand(
        page, inside, token=token, settings=crawl.settings, step=step, hops=hops
    )
    while expansion is not None and not expansion.is_settled:
        depths = crawl.frontier.nearer()
        if depths:
            crawl.storage.set_depths(crawl.id, depths)
            crawl.frontier.settle(depths)
        expansion = crawl.frontier.relax(page, token=token, settings=crawl.settings)
    return None if expansion is None else expansion.claims
