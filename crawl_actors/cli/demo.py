"""`crawl-actors demo`: crawl a local site full of traps and say whether all went right."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from crawl_actors.cli.interrupts import interrupts_kept, raise_interrupted
from crawl_actors.cli.values import directory
from crawl_actors.demo.evidence import Check
from crawl_actors.demo.plan import SitePlan
from crawl_actors.demo.trials import DemoOptions, Trial, run_trials
from crawl_actors.running import UsageError

_RIGHT, _WRONG, _USAGE = 0, 1, 2
_MOST_FINDINGS = 10


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    plan, options = SitePlan(), DemoOptions(out=Path())
    parser = subparsers.add_parser(
        "demo",
        help="crawl a local site full of traps and check the result",
        description="Serve a made-up site on this machine, with redirects, failures, traps and"
        " rules, crawl it with real workers, and compare what was stored and what was requested"
        " with the truth.",
        epilog="exit codes: 0 all is as it should be, 1 something is not, 2 wrong usage,"
        " 130 interrupted, 143 terminated",
    )
    add = parser.add_argument
    add(
        "--pages",
        type=int,
        default=plan.pages,
        metavar="N",
        help="ordinary pages, beside some 200 difficult ones (default: %(default)s)",
    )
    add(
        "--seed",
        type=int,
        default=plan.seed,
        metavar="N",
        help="decides what the site looks like (default: %(default)s)",
    )
    workers = options.processes
    add(
        "--processes", type=int, default=workers, metavar="N", help="workers (default: %(default)s)"
    )
    add(
        "--threads",
        type=int,
        default=options.threads,
        metavar="N",
        help="in each (default: %(default)s)",
    )
    add("--out", type=directory, metavar="DIR", help="keep what the crawls leave in this directory")
    add("--keep", action="store_true", help="keep it in a temporary directory, and say which")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, raise_interrupted)
    try:
        plan = SitePlan(pages=arguments.pages, seed=arguments.seed)
    except ValueError as error:
        return _refuse(error)
    kept, has_crawled = arguments.keep or arguments.out is not None, True
    out = arguments.out or Path(tempfile.mkdtemp(prefix="crawl-actors-demo-"))
    try:
        processes, threads = arguments.processes, arguments.threads
        with interrupts_kept():
            return _show(DemoOptions(out=out, plan=plan, processes=processes, threads=threads))
    except UsageError as error:
        kept, has_crawled = arguments.out is not None, False
        return _refuse(error)
    except KeyboardInterrupt as interrupt:
        print("crawl-actors demo: interrupted", file=sys.stderr)
        return 128 + getattr(interrupt, "number", signal.SIGINT)
    finally:
        if not kept:
            _remove(out)
        elif has_crawled and out.is_dir():
            print(f"What the crawls left is in {out}.")


def _show(options: DemoOptions) -> int:
    console = Console()
    checks: list[Check] = []
    for trial in run_trials(options, Console(stderr=True)):
        if not trial.checks:
            console.print(Text(f"The crawl did not finish: {trial.result.reason}.", "bold red"))
            return trial.result.exit_code or _WRONG
        console.print(_table(trial))
        for check in trial.checks:
            _explain(check, console)
        checks += trial.checks
    wrong = sum(not check.is_right for check in checks)
    if wrong:
        console.print(Text(f"{wrong} of {len(checks)} checks found a difference.", "bold red"))
        return _WRONG
    console.print(Text(f"All {len(checks)} checks are as they should be.", "bold green"))
    return _RIGHT


def _table(trial: Trial) -> Table:
    seconds = trial.result.elapsed_ms / 1000
    table = Table(
        title=f"{trial.name}: {trial.result.summary.pages} pages in {seconds:.1f} s",
        title_justify="left",
    )
    table.add_column("What has to be so")
    table.add_column("Looked at", justify="right")
    table.add_column("Verdict")
    for check in trial.checks:
        verdict = Text("as it should be", "green")
        if not check.is_right:
            verdict = Text(f"{len(check.findings)} differ" if check.findings else "no case", "red")
        table.add_row(check.rule, str(check.looked_at), verdict)
    return table


def _explain(check: Check, console: Console) -> None:
    """Print what is not as it should be."""
    for finding in check.findings[:_MOST_FINDINGS]:
        console.print(Text(f"  {finding}"), soft_wrap=True)
    more = len(check.findings) - _MOST_FINDINGS
    if more > 0:
        console.print(f"  ... and {more} more like these.")


@retry(retry=retry_if_exception_type(OSError), stop=stop_after_delay(10), wait=wait_fixed(0.2))
def _remove(folder: Path) -> None:
    """Delete *folder*; the embedded server, which is about to stop, may still write to it."""
    if folder.exists():
        shutil.rmtree(folder)


def _refuse(error: Exception) -> int:
    print(f"crawl-actors demo: error: {error}", file=sys.stderr)
    return _USAGE
