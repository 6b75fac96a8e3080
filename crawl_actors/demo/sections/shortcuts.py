"""A page first found the long way round, and later by a way so short that more is in reach.

The cellar is three steps from the seed by quick pages, and two by a page that takes its time. A
crawl that keeps the depth it saw first stores it too deep, and stops one page too early.
"""

from __future__ import annotations

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.resources import Answer, Delivery, Section


def shortcuts(builder: Builder) -> Section:
    """The cellar goes on beyond the depth limit; its door opens when the detour has been walked."""
    cellar = [builder.url(f"/cellar/{number}.html") for number in range(builder.plan.max_depth + 2)]
    detour = [builder.url(f"/detour/{number}.html") for number in range(2)]
    door = builder.page(
        "/detour/door.html",
        "A slow door to the cellar",
        links=cellar[:1],
        answer=Answer(delivery=Delivery.SLOW, seconds=builder.plan.slow_s),
        failures=[Answer(delivery=Delivery.STALLED), Answer(502, body=b"Not yet.")],
    )
    resources = [
        builder.page(url.removeprefix(builder.origin), f"Step {number}", links=[following])
        for number, (url, following) in enumerate(_steps([*detour, *cellar]))
    ]
    return Section([door, *resources], front=[*detour[:1], door.url])


def _steps(urls: list[str]) -> list[tuple[str, str]]:
    """Each URL with the one behind it; the last leads back to the first."""
    return list(zip(urls, [*urls[1:], urls[0]], strict=True))
