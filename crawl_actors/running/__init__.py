"""One crawl from its seeds to its files: what `crawl-actors run` does, callable from Python."""

from crawl_actors.running.options import RunOptions, RunResult, UsageError
from crawl_actors.running.run import Interrupted, run_crawl

__all__ = ["Interrupted", "RunOptions", "RunResult", "UsageError", "run_crawl"]
