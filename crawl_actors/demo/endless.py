"""Parts of the site that have no end: only a limit stops a crawler there."""

from __future__ import annotations

import re

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.resources import Resource

_MONTH = re.compile(r"/calendar\?month=(\d{4})-(0[1-9]|1[0-2])")
_DAY = re.compile(r"/calendar/\d{4}-\d{2}-01\.html")
_MAZE = re.compile(r"/maze/(deeper/)*")


class Endless:
    """A calendar that turns its pages in both directions, and a path that grows with every link.

    Its pages are made when asked for; the same URL always gives the same page.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self.entrances = (builder.url("/calendar?month=2024-06"), builder.url("/maze/"))

    def find(self, path: str) -> Resource | None:
        """The page at *path*, if it is in here."""
        if match := _MONTH.fullmatch(path):
            return self._month(int(match[1]), int(match[2]))
        if _DAY.fullmatch(path):
            return self._builder.page(path, f"The first: {path}")
        if _MAZE.fullmatch(path):
            deeper = self._builder.url(f"{path}deeper/")
            return self._builder.page(path, f"Maze, {path.count('deeper')} deep", links=[deeper])
        return None

    def _month(self, year: int, month: int) -> Resource:
        url = self._builder.url
        count = year * 12 + month - 1
        around = [f"/calendar?month={n // 12:04}-{n % 12 + 1:02}" for n in (count - 1, count + 1)]
        day = url(f"/calendar/{year:04}-{month:02}-01.html")
        return self._builder.page(
            f"/calendar?month={year:04}-{month:02}",
            f"Month {month} of {year}",
            links=[*map(url, around), day],
        )
