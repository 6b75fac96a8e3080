"""The command `dramatiq-streams`: one file per subcommand, each with `add_parser` and `run`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

from dramatiq.errors import BrokerConnectionError

from dramatiq_streams import __version__
from dramatiq_streams.cli import (
    dlq,
    doctor,
    exporter,
    health,
    locks,
    messages,
    migrate,
    queue,
    stats,
    workers,
)
from dramatiq_streams.cli.place import NEGATIVE, UNREACHABLE, USAGE
from dramatiq_streams.cli.printing import printable
from dramatiq_streams.errors import InvalidOption, StreamsError

#: In the order of the help.
COMMANDS: tuple[ModuleType, ...] = (
    stats,
    workers,
    messages,
    dlq,
    locks,
    queue,
    migrate,
    doctor,
    health,
    exporter,
)

_EPILOG = (
    "exit codes: 0 all is well, 1 the answer is no, 2 wrong usage, 3 the server cannot be reached"
    " or refuses, or the output cannot be written, 130 interrupted"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    Args:
        arguments: Without the command's name; None takes them from the process.
    """
    chosen = _parsed(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        # Messages hold any text, and a terminal's encoding may not.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run(chosen)
    except BrokenPipeError:
        # `... | head` has read enough.
        _drop_output()
        return NEGATIVE
    except OSError as error:
        _drop_output()
        what = error.filename or "the output"
        return _fail(f"error: cannot use {what}: {error.strerror or error}", UNREACHABLE)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="dramatiq-streams",
        description="See and mend the queues of dramatiq_streams.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"dramatiq-streams {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    chosen = parser.parse_args(arguments)
    for text in _texts(chosen):
        if text.encode(errors="replace").decode() != text:
            parser.error(f"{text!r} is not UTF-8")
    return chosen


def _run(chosen: argparse.Namespace) -> int:
    try:
        code = int(chosen.run(chosen))
    except (InvalidOption, ImportError) as error:
        # What an import says is what a URL or an option needs: the extra `embedded`, for one.
        return _fail(f"error: {error}", USAGE)
    except (BrokerConnectionError, StreamsError) as error:
        return _fail(f"the server cannot be reached or refuses: {error}", UNREACHABLE)
    if sys.stdout is not None:  # as after `>&-`
        sys.stdout.flush()
    return code


def _drop_output() -> None:
    """Forget what could not be printed: Python would complain again when it flushes at its end."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _texts(chosen: argparse.Namespace) -> Iterator[str]:
    """What was given, apart from files, whose names may have any bytes."""
    for value in vars(chosen).values():
        values = value if isinstance(value, list) else [value]
        yield from (text for text in values if isinstance(text, str))


def _fail(text: str, code: int) -> int:
    lines = map(printable, text.splitlines() or [""])
    print("dramatiq-streams:", "\n".join(lines), file=sys.stderr)
    return code
