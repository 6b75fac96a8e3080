"""A page first found the long way round, and later by a way so short that more is in reach.

A crawl with a depth limit that keeps the depth it saw first stops too early here: the cellar is
found at the limit through a chain of quick pages, and two steps from the seed through a slow one.
"""

from __future__ import annotations

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.resources import Answer, Delivery, Section


def shortcuts(builder: Builder) -> Section:
    """The detour is as long as the depth limit allows, the cellar goes beyond it."""
    cellar = [builder.url(f"/cellar/{number}.html") for number in range(builder.plan.max_depth + 2)]
    detour = [builder.url(f"/detour/{number}.html") for number in range(builder.plan.max_depth - 1)]
    door = builder.page(
        "/detour/door.html",
        "A slow door to the cellar",
        links=cellar[:1],
        answer=Answer(delivery=Delivery.SLOW, seconds=builder.plan.slow_s),
    )
    resources = [
        builder.page(url.removeprefix(builder.origin), f"Step {number}", links=[following])
        for number, (url, following) in enumerate(_steps([*detour, *cellar]))
    ]
    return Section([door, *resources], front=[*detour[:1], door.url])


def _steps(urls: list[str]) -> list[tuple[str, str]]:
    """Each URL with the one behind it; the last leads back to the first."""
    return list(zip(urls, [*urls[1:], urls[0]], strict=True))
