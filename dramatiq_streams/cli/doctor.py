"""`dramatiq-streams doctor`: is this server a good place for messages?"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from dramatiq_streams.checks import Level
from dramatiq_streams.cli.place import FINE, add_place, opened
from dramatiq_streams.cli.printing import print_json, printable
from dramatiq_streams.diagnosis import Diagnosis, diagnose

_CODES = {None: FINE, Level.WARNING: 1, Level.ERROR: 2}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "doctor",
        help="is this server a good place for messages?",
        description="Look at the server's version and settings and at both clocks, and send one"
        " message through a queue that is made for it and deleted again.",
        epilog="exit codes: 0 nothing was found, 1 warnings, 2 errors or wrong usage, 3 the server"
        " cannot be reached",
    )
    add_place(parser, queues=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit code."""
    with opened(arguments) as place:
        diagnosis = diagnose(place.executor, place.namespace)
    if arguments.json:
        print_json(asdict(diagnosis))
    else:
        _print(diagnosis)
    return _CODES[diagnosis.level]


def _print(diagnosis: Diagnosis) -> None:
    facts = diagnosis.facts
    print(f"server: {facts.product or 'unknown'} {facts.version or 'of an unknown version'}")
    if diagnosis.round_trip_ms is not None:
        print(f"round trip of a message: {diagnosis.round_trip_ms:.1f} ms")
    for finding in diagnosis.findings:
        print(f"{finding.level}: {printable(str(finding))} [{finding.code}]")
    if not diagnosis.findings:
        print("Nothing was found.")
