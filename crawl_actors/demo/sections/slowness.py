"""Pages that take their time: served in the end, cut, or silent."""

from __future__ import annotations

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.resources import Answer, Delivery, Resource, Section


def slowness(builder: Builder) -> Section:
    """One page drips and is served, one stalls once, and one drips without end."""
    beyond = builder.page("/slow/beyond.html", "Beyond the slow pages")
    served = builder.page(
        "/slow/served.html",
        "Slow and served",
        links=[beyond.url],
        answer=Answer(delivery=Delivery.SLOW, seconds=builder.plan.slow_s / 2),
    )
    stalled = builder.page(
        "/slow/stalled-once.html",
        "Stalled once",
        links=[beyond.url],
        failures=[Answer(delivery=Delivery.STALLED)],
    )
    endless = Resource(builder.url("/slow/endless.html"), Answer(delivery=Delivery.ENDLESS))
    # Found first: they take longest.
    front = [endless.url, stalled.url, served.url]
    return Section([beyond, served, stalled, endless], front=front)
