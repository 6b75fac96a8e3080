"""Serves the demo's site, has it crawled by real workers, and checks what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from crawl_actors.demo.check import check_crawl
from crawl_actors.demo.evidence import Check, Evidence
from crawl_actors.demo.plan import SitePlan
from crawl_actors.demo.server import DemoServer
from crawl_actors.demo.site import Site
from crawl_actors.demo.truth import Limits, expected_pages
from crawl_actors.running import RunOptions, RunResult, run_crawl
from crawl_actors.settings import CrawlSettings
from crawl_actors.storage import SqliteStorage

# So few that the limit cuts off even the smallest site.
_FEW_PAGES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What site to make, how to crawl it, and the directory *out* for what the crawls leave."""

    out: Path
    plan: SitePlan = field(default_factory=SitePlan)
    processes: int = 2
    threads: int = 8


@dataclass(frozen=True, slots=True)
class Trial:
    """One crawl of the site and what the checks say; there are none when it did not finish."""

    name: str
    result: RunResult
    checks: tuple[Check, ...] = ()


def run_trials(options: DemoOptions, console: Console) -> Iterator[Trial]:
    """Crawl the whole site, then as much of it as a page limit allows, each in its own directory.

    What the crawls say goes to *console*. After a crawl that did not finish there is no other.
    """
    limits = Limits(max_depth=options.plan.max_depth)
    cases = {
        "whole": ("The whole site", limits),
        "cut-off": (
            f"No more than {_FEW_PAGES} pages, without retries",
            replace(limits, max_pages=_FEW_PAGES, max_retries=0, delay_s=0),
        ),
    }
    with DemoServer() as server, DemoServer() as elsewhere:
        site = Site(options.plan, origin=server.origin, elsewhere=elsewhere.origin)
        server.publish(site.find)
        for folder, (name, case) in cases.items():
            server.forget_visits()
            result = run_crawl(_run_options(options, site, case, folder=folder), console=console)
            if result.exit_code != 0 or not result.finished:
                yield Trial(name, result)
                return
            evidence = _gather(site, case, result, server=server, elsewhere=elsewhere)
            yield Trial(name, result, tuple(check_crawl(evidence)))


def _run_options(options: DemoOptions, site: Site, limits: Limits, *, folder: str) -> RunOptions:
    settings = CrawlSettings(
        max_depth=limits.max_depth,
        max_pages=limits.max_pages,
        delay_ms=round(limits.delay_s * 1000),
        user_agent=limits.user_agent,
        deadline_ms=round(limits.deadline_s * 1000),
        max_body_bytes=limits.max_body_bytes,
        max_retries=limits.max_retries,
    )
    return RunOptions(
        seeds=(site.seed_url,),
        settings=settings,
        out=options.out / folder,
        processes=options.processes,
        threads=options.threads,
        restart=True,
    )


def _gather(
    site: Site, limits: Limits, result: RunResult, *, server: DemoServer, elsewhere: DemoServer
) -> Evidence:
    with (result.out / "pages.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    with closing(SqliteStorage(result.out / "pages.sqlite")) as storage:
        stored = list(storage.urls(result.crawl_id))
    return Evidence(
        site,
        limits,
        expected_pages(site, limits),
        rows=rows,
        stored=stored,
        visits=server.visits,
        strays=elsewhere.visits,
    )
