"""The demo's site: ordinary pages around every kind of difficulty, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.endless import Endless
from crawl_actors.demo.plan import SitePlan
from crawl_actors.demo.resources import Resource
from crawl_actors.demo.sections import ALL

_FOLDERS = ("garden", "harbour", "~library", "caf%C3%A9", "old-town", "Museum")


class Site:
    """Every resource of one site.

    Args:
        origin: `http://localhost:port`, where it is served.
        elsewhere: The origin of another site, that links lead to and nobody may follow.
    """

    def __init__(self, plan: SitePlan, *, origin: str, elsewhere: str) -> None:
        builder = Builder(plan, origin=origin, elsewhere=elsewhere)
        self.origin = origin
        self.seed_url = builder.url("/")
        self.forbidden: dict[str, str] = {}
        """URLs that no crawler may ask for, each with the reason as a clause."""
        self.closed: set[str] = set()
        """Those of them that a crawler finds links to, and robots.txt forbids."""
        self._endless = Endless(builder)
        self._finite: dict[str, Resource] = {}
        entrances = list(self._endless.entrances)
        front: list[str] = []
        for make in ALL:
            section = make(builder)
            self._add(section.resources)
            entrances += section.entrances
            front += section.front
            self.forbidden |= section.forbidden
            self.closed.update(section.closed)
        self._add(_ordinary_pages(builder, plan.pages, entrances=entrances, front=front))

    def find(self, url: str) -> Resource | None:
        """What is at the canonical *url*, if anything."""
        if url in self._finite or not url.startswith(f"{self.origin}/"):
            return self._finite.get(url)
        return self._endless.find(url.removeprefix(self.origin))

    def _add(self, resources: Iterable[Resource]) -> None:
        for resource in resources:
            if resource.url in self._finite:
                raise ValueError(f"the site has two resources at {resource.url}")
            self._finite[resource.url] = resource


def _ordinary_pages(
    builder: Builder, count: int, *, entrances: Sequence[str], front: Sequence[str]
) -> list[Resource]:
    """A tree of pages with links across; each of *entrances* is linked to from two of them.

    The first page, the seed, links to all of *front*.
    """
    rng = builder.rng
    paths = ["/", *(_path(number, rng) for number in range(1, count))]
    links: list[list[str]] = [list(front), *([] for _ in paths[1:])]
    # Near the seed, so that the difficult parts are within reach of the depth limit.
    for entrance in entrances:
        for number in rng.sample(range(max(2, count // 5)), 2):
            links[number].append(entrance)
    for number in range(1, count):
        parent = rng.randrange((number - 1) // 6, (number - 1) // 2 + 1)
        links[parent].append(builder.url(paths[number]))
    for number in range(count):
        links[number] += (builder.url(rng.choice(paths)) for _ in range(rng.randrange(5)))
    return [
        builder.page(path, f"Page {number} of {count}", links=links[number])
        for number, path in enumerate(paths)
    ]


def _path(number: int, rng: random.Random) -> str:
    folder = rng.choice(_FOLDERS)
    return rng.choice(
        [
            f"/{folder}/page-{number}.html",
            f"/{folder}/{rng.choice(_FOLDERS)}/{number}/",
            f"/{folder}?id={number}&lang=en",
        ]
    )
