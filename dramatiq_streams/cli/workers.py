"""`dramatiq-streams workers`: which processes read which queues, and which of them live."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from dramatiq_streams.cli.place import FINE, add_place, opened
from dramatiq_streams.cli.printing import duration, print_json, print_table
from dramatiq_streams.inspector import Inspector

_HEADINGS = ("queue", "host", "pid", "alive", "heartbeat", "pending", "idle", "consumer")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "workers",
        help="which processes read which queues",
        description="Show the worker processes of each queue: alive are those whose last heartbeat"
        " is less than a lease ago.",
    )
    add_place(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit code."""
    with opened(arguments) as place:
        inspector = Inspector(place.executor, place.namespace)
        workers = [worker for queue in place.queues for worker in inspector.workers(queue)]
    if arguments.json:
        fields = [asdict(worker) for worker in workers]
        print_json({"namespace": place.namespace, "workers": fields})
        return FINE
    rows = [
        (
            worker.queue,
            worker.host,
            worker.pid,
            "yes" if worker.is_alive else "no",
            duration(worker.heartbeat_age_ms),
            worker.pending,
            duration(worker.idle_ms),
            worker.consumer,
        )
        for worker in workers
    ]
    print_table(_HEADINGS, rows)
    return FINE
