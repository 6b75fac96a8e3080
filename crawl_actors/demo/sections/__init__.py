"""The parts of the demo's site: one file for each kind of difficulty a crawler meets.

Each file has one function that takes a `Builder` and returns a `Section`. `ALL` is the list.
"""

from __future__ import annotations

from collections.abc import Callable

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.resources import Section
from crawl_actors.demo.sections.charsets import charsets
from crawl_actors.demo.sections.failures import failures
from crawl_actors.demo.sections.files import files
from crawl_actors.demo.sections.lookalikes import lookalikes
from crawl_actors.demo.sections.odd_links import odd_links
from crawl_actors.demo.sections.redirects import redirects
from crawl_actors.demo.sections.robots import robots
from crawl_actors.demo.sections.shortcuts import shortcuts
from crawl_actors.demo.sections.slowness import slowness

ALL: tuple[Callable[[Builder], Section], ...] = (
    # The seed links to these first: they take longest.
    shortcuts,
    slowness,
    charsets,
    failures,
    files,
    lookalikes,
    odd_links,
    redirects,
    robots,
)
