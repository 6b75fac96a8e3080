"""URLs that look alike and are different pages: making one out of two loses one."""

from __future__ import annotations

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.resources import Section

_PATHS = (
    "/alike",
    "/alike/",
    "/Alike",
    "/alike/index.html",
    "/alike?a=1&b=2",
    "/alike?b=2&a=1",
    "/alike?a=1",
    "/alike?a=1&a=1",
    "/alike?a=",
    "/alike?a",
    "/alike?q=a+b",
    "/alike?q=a%20b",
    "/alike?utm_source=demo",
    "/alike//",
    "/alike/a%2Fb",
    "/alike/a/b",
    "/alike;v=1",
    "/alike/~user",
    "/alike/caf%C3%A9",
    "/alike/cafe",
    "/alike/100%25",
    "/index.html",
)


def lookalikes(builder: Builder) -> Section:
    """All of them are linked to from pages that choose the spelling."""
    resources = [
        builder.page(path, f"Alike number {number}: {path}") for number, path in enumerate(_PATHS)
    ]
    return Section(resources, [resource.url for resource in resources])
