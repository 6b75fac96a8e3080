"""The command `crawl-actors`: one file per subcommand, each with `add_parser` and `run`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from crawl_actors.requirements import PackagesMissing, explain
from dramatiq_streams import __version__

try:
    from crawl_actors.cli import demo, run
except ModuleNotFoundError as error:
    explain(error)


class CurrentStderr(logging.Handler):
    """Writes to what `sys.stderr` is now: rich puts lines there above its live line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write *record* as one line."""
        try:
            sys.stderr.write(self.format(record) + "\n")
        except OSError:
            self.handleError(record)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    Args:
        arguments: Without the command's name; None takes them from the process.
    """
    parser = argparse.ArgumentParser(
        prog="crawl-actors", description="A web crawler made of dramatiq actors."
    )
    parser.add_argument("--version", action="version", version=f"crawl-actors {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in (run, demo):
        command.add_parser(subparsers)
    chosen = parser.parse_args(arguments)
    handlers = [CurrentStderr()]
    logging.basicConfig(
        level=logging.WARNING, format="crawl-actors: %(message)s", handlers=handlers
    )
    try:
        return int(chosen.run(chosen))
    except PackagesMissing as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("crawl-actors: ended at once", file=sys.stderr)
        return 130
