"""`dramatiq-streams health`: does this host have a living worker? For probes."""

from __future__ import annotations

import argparse
import socket
import sys
from dataclasses import asdict

from dramatiq_streams.cli.amounts import duration_ms
from dramatiq_streams.cli.place import FINE, NEGATIVE, add_place, opened
from dramatiq_streams.cli.printing import duration, print_json
from dramatiq_streams.inspector import Inspector, WorkerState


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "health",
        help="does this host have a living worker? for probes",
        description="Exit with 0 when a worker of this host gave a sign of life within a lease for"
        " each queue that this host reads, or that is named, and with 1 otherwise.",
    )
    add_place(parser)
    add = parser.add_argument
    add("--host", default=socket.gethostname(), metavar="NAME", help="default: this host")
    add(
        "--within",
        type=duration_ms,
        metavar="TIME",
        help="how old a heartbeat may be, as in 30s (default: the queue's lease)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit code."""
    with opened(arguments) as place:
        inspector = Inspector(place.executor, place.namespace)
        found = {
            queue.queue_name: _newest(inspector.workers(queue), arguments.host)
            for queue in place.queues
        }
        limits = {q.queue_name: arguments.within or q.lease_ms for q in place.queues}
    # Without --queue a host need not read every queue there is.
    read = found if arguments.queue else {n: worker for n, worker in found.items() if worker}
    ill = [name for name, worker in read.items() if not _is_well(worker, limits[name])]
    is_well = bool(read) and not ill
    if arguments.json:
        workers = [asdict(worker) for worker in read.values() if worker]
        print_json({"host": arguments.host, "healthy": is_well, "ill": ill, "workers": workers})
    for name in [] if is_well else ill or ["any queue"]:
        worker = read.get(name)
        age = duration(worker.heartbeat_age_ms) if worker else None
        heard = f"its last heartbeat was {age} ago" if age else "there is no heartbeat"
        print(f"Host {arguments.host} has no living worker of {name}: {heard}.", file=sys.stderr)
    return FINE if is_well else NEGATIVE


def _newest(workers: list[WorkerState], host: str) -> WorkerState | None:
    here = [w for w in workers if w.host == host and w.heartbeat_age_ms is not None]
    return min(here, key=lambda worker: worker.heartbeat_age_ms or 0, default=None)


def _is_well(worker: WorkerState | None, limit_ms: int) -> bool:
    if worker is None or worker.heartbeat_age_ms is None:
        return False
    return worker.heartbeat_age_ms <= limit_ms
