"""What a run takes and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from crawl_actors.settings import DEFAULT_OUT, CrawlSettings

if TYPE_CHECKING:
    from crawl_actors.storage import Summary

_MOST_PROCESSES = 256
_MOST_THREADS = 1024


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

    Raises:
        UsageError: A number is out of range.
    """

    seeds: tuple[str, ...]
    settings: CrawlSettings = field(default_factory=CrawlSettings)
    out: Path = Path(DEFAULT_OUT)
    processes: int = 2
    threads: int = 8
    redis_url: str | None = None
    lease_ms: int = 10_000
    restart: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.processes <= _MOST_PROCESSES:
            raise UsageError(f"processes must be 1 to {_MOST_PROCESSES}, not {self.processes}")
        if not 1 <= self.threads <= _MOST_THREADS:
            raise UsageError(f"threads must be 1 to {_MOST_THREADS}, not {self.threads}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended.

    Args:
        crawl_id: The crawl's name in the storage.
        finished: Whether nothing is left to do; False after Ctrl-C or a failure.
        summary: What the storage holds of this crawl.
        exit_code: 0 done, 1 failed, 130 interrupted, as the command exits.
        out: The output directory.
        resumable: Whether the same command continues it: it has begun and is not finished.
        run_pages: How many URLs this run stored; `summary` counts those of earlier runs too.
        elapsed_ms: From the start of the workers to the last page, in this run.
        reason: Why it failed or stopped early; empty when it did neither.
    """

    crawl_id: str
    finished: bool
    summary: Summary
    exit_code: int
    out: Path
    resumable: bool
    run_pages: int
    elapsed_ms: int
    reason: str = ""
