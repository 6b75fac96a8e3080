"""`dramatiq-streams doctor`: is this server a good place for messages?"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from dramatiq_streams.checks import Level
from dramatiq_streams.cli.place import FINE, add_place, opened
from dramatiq_streams.cli.printing import print_json, printable
from dramatiq_streams.diagnosis import Diagnosis, diagnose

_CODES = {Level.WARNING: 1, Level.ERROR: 2}

#: What can be accepted: a server that stores no messages cannot.
ACCEPTABLE = ("clock", "eviction", "persistence", "replication", "settings", "version")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "doctor",
        help="is this server a good place for messages?",
        description="Look at the server's version and settings and at both clocks, and send one"
        " message through a queue that is made for it and deleted again.",
        epilog="exit codes: 0 nothing was found, or all is accepted, 1 warnings, 2 errors or wrong"
        " usage, 3 the server cannot be reached",
    )
    add_place(parser, queues=False)
    parser.add_argument(
        "--accept",
        action="append",
        choices=ACCEPTABLE,
        default=[],
        metavar="CODE",
        help="show this finding, and do not let it decide the exit code; repeatable:"
        f" {', '.join(ACCEPTABLE)}",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit code."""
    with opened(arguments) as place:
        diagnosis = diagnose(place.executor, place.namespace)
    accepted = frozenset(arguments.accept)
    if arguments.json:
        view = asdict(diagnosis)
        for finding in view["findings"]:
            finding["accepted"] = finding["code"] in accepted
        print_json(view)
    else:
        _print(diagnosis, accepted)
    levels = [finding.level for finding in diagnosis.findings if finding.code not in accepted]
    return max((_CODES[level] for level in levels), default=FINE)


def _print(diagnosis: Diagnosis, accepted: frozenset[str]) -> None:
    facts = diagnosis.facts
    version = printable(facts.version) or "of an unknown version"
    print(f"server: {facts.product or 'unknown'} {version}")
    if diagnosis.round_trip_ms is not None:
        print(f"round trip of a message: {diagnosis.round_trip_ms:.1f} ms")
    for finding in diagnosis.findings:
        word = "accepted" if finding.code in accepted else finding.level
        print(f"{word}: {printable(str(finding))} [{finding.code}]")
    if not diagnosis.findings:
        print("Nothing was found.")
