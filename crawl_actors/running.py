"""One crawl from its seeds to its files: what `crawl-actors run` does, callable from Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from crawl_actors.settings import DEFAULT_OUT, CrawlSettings

if TYPE_CHECKING:
    from crawl_actors.storage import Summary


class UsageError(ValueError):
    """The options contradict each other, or what is in the output directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What to crawl, and with how many workers.

    Args:
        seeds: The URLs to begin with; one at least.
        settings: The rules of the crawl.
        out: Where `pages.sqlite`, `pages.jsonl`, `workers.log`, `crawl.json` and the embedded
            server's `broker/` go.
        processes: Worker processes.
        threads: Threads in each of them.
        redis_url: A server to use in place of the embedded one.
        lease_ms: How long after its death a worker's pages go to another worker.
        restart: Whether an unfinished crawl in `out` is given up instead of continued.
    """

    seeds: tuple[str, ...]
    settings: CrawlSettings = field(default_factory=CrawlSettings)
    out: Path = Path(DEFAULT_OUT)
    processes: int = 2
    threads: int = 8
    redis_url: str | None = None
    lease_ms: int = 10_000
    restart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended.

    Args:
        crawl_id: The crawl's name in the storage.
        finished: Whether nothing is left to do; False after Ctrl-C or a failure.
        summary: What the storage holds of this crawl.
        exit_code: 0 done, 1 failed, 130 interrupted, as the command exits.
        out: The output directory.
        elapsed_ms: From the start of the workers to the last page.
        reason: Why it failed or stopped early; empty when it did neither.
    """

    crawl_id: str
    finished: bool
    summary: Summary
    exit_code: int
    out: Path
    elapsed_ms: int
    reason: str = ""


def run_crawl(options: RunOptions, *, console: Console | None = None) -> RunResult:
    """Crawl until nothing is open, or until interrupted; continue what an earlier run left.

    Progress and the summary are printed to *console*; None prints to standard error.

    Raises:
        UsageError: A seed is no http or https URL, a number is out of range, or `out` holds an
            unfinished crawl with other seeds or settings, or is in use by another run.
    """
    raise NotImplementedError
