"""What decides the demo's site (pure)."""

from __future__ import annotations

from dataclasses import dataclass

MIN_PAGES = 10


@dataclass(frozen=True, slots=True)
class SitePlan:
    """What decides a site: the same plan at the same origin is the same site, byte for byte.

    Args:
        pages: Ordinary pages; the difficult ones come on top, some 150 of them.
        max_depth: The depth limit of the crawl it is made for; its deepest parts go beyond it.
        slow_s: How long the slow pages take; a deadline above it sees all of them.
    """

    pages: int = 200
    seed: int = 1
    max_depth: int = 8
    slow_s: float = 1.2

    def __post_init__(self) -> None:
        if self.pages < MIN_PAGES:
            raise ValueError(f"pages is {self.pages}: a site has {MIN_PAGES} pages at least")
        if self.max_depth < 1:
            raise ValueError(f"max_depth is {self.max_depth}: it must be 1 at least")
        if self.slow_s <= 0:
            raise ValueError(f"slow_s is {self.slow_s}: it must be above 0")
