"""`crawl-actors run`: crawl from some URLs until nothing is left."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from pathlib import Path

from rich.console import Console

from crawl_actors.cli.interrupts import interrupts_kept, raise_interrupted
from crawl_actors.cli.report import print_summary
from crawl_actors.cli.values import directory, seconds, user_agent, whole_number
from crawl_actors.running import RunOptions, UsageError, run_crawl
from crawl_actors.settings import DEFAULT_OUT, MAX_RETRIES, CrawlSettings

_EPILOG = """\
The output directory holds pages.sqlite and, once the crawl is over, pages.jsonl. The same command
continues a crawl that was interrupted or killed.

exit codes: 0 done, 1 failed, 2 wrong usage, 129, 130 or 143 interrupted (SIGHUP, Ctrl-C, SIGTERM)
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    defaults = CrawlSettings()
    parser = subparsers.add_parser(
        "run",
        help="crawl from some URLs until nothing is left",
        description="Crawl from some URLs until nothing is left.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("urls", nargs="+", metavar="URL", help="where to begin: an http or https URL")
    add(
        "--depth",
        type=whole_number(0),
        metavar="N",
        help="clicks from a URL above; 0: only these URLs",
    )
    add(
        "--max-pages",
        type=whole_number(1),
        metavar="N",
        help="URLs to ask for at most, redirects included",
    )
    add(
        "--allow",
        action="append",
        default=[],
        metavar="X",
        help="where links may lead: host, *.domain or URL prefix; repeatable (default: the"
        " same host and port as a URL above)",
    )
    add(
        "--delay",
        type=seconds(0),
        metavar="SECONDS",
        help="between two requests to one site (default: 0.1, and 0 for this machine itself)",
    )
    add(
        "--user-agent",
        type=user_agent,
        default=defaults.user_agent,
        metavar="TEXT",
        help="default: %(default)s",
    )
    add(
        "--deadline",
        type=seconds(0.001),
        default=defaults.deadline_ms / 1000,
        metavar="SECONDS",
        help="for one whole request (default: %(default)g)",
    )
    add(
        "--max-retries",
        type=whole_number(0, MAX_RETRIES),
        default=defaults.max_retries,
        metavar="N",
        help="for a page that fails in a way that may pass (default: %(default)s)",
    )
    add("--no-robots", action="store_true", help="do not read robots.txt; for your own sites")
    add(
        "--out",
        type=directory,
        default=Path(DEFAULT_OUT),
        metavar="DIR",
        help="default: ./%(default)s",
    )
    add("--processes", type=int, default=2, metavar="N", help="workers (default: %(default)s)")
    add("--threads", type=int, default=8, metavar="N", help="in each (default: %(default)s)")
    add(
        "--redis-url",
        metavar="URL",
        help="a Redis or Valkey server (default: one of its own, in the output directory)",
    )
    add("--restart", action="store_true", help="give up an unfinished crawl in DIR")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # nohup has it ignored, and means it.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, raise_interrupted)
    try:
        with interrupts_kept():
            result = run_crawl(_options(arguments), console=Console(stderr=True))
    except ValueError as error:
        print(f"crawl-actors run: error: {error}", file=sys.stderr)
        return 2
    print_summary(result, console=Console())
    if result.resumable:
        command = shlex.join(["crawl-actors", *sys.argv[1:]])
        print(f"To continue where it stopped: {command}", file=sys.stderr)
    return result.exit_code


def _options(arguments: argparse.Namespace) -> RunOptions:
    try:
        settings = CrawlSettings(
            max_depth=arguments.depth,
            max_pages=arguments.max_pages,
            allow=tuple(arguments.allow),
            delay_ms=None if arguments.delay is None else _milliseconds(arguments.delay),
            user_agent=arguments.user_agent,
            deadline_ms=_milliseconds(arguments.deadline),
            max_retries=arguments.max_retries,
            obey_robots=not arguments.no_robots,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    return RunOptions(
        seeds=tuple(arguments.urls),
        settings=settings,
        out=arguments.out,
        processes=arguments.processes,
        threads=arguments.threads,
        redis_url=arguments.redis_url,
        restart=arguments.restart,
    )


def _milliseconds(number: float) -> int:
    return round(number * 1000)
