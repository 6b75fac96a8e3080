"""`dramatiq-streams health`: does a worker of this host fetch and acknowledge? For probes."""

from __future__ import annotations

import argparse
import socket
import sys
from dataclasses import asdict

from dramatiq_streams.cli.amounts import duration_ms
from dramatiq_streams.cli.place import FINE, NEGATIVE, add_place, opened
from dramatiq_streams.cli.printing import duration, print_json, printable
from dramatiq_streams.inspector import Inspector, WorkerState

_NO_HEARTBEAT = "there is no heartbeat"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "health",
        help="does a worker of this host fetch and acknowledge? for probes",
        description="Exit with 0 when, for each queue that this host reads, or that is named, a"
        " worker of this host gave a sign of life, fetched, and had its acknowledgements confirmed"
        " within a lease; with 1 otherwise.",
    )
    add_place(parser)
    add = parser.add_argument
    add("--host", default=socket.gethostname(), metavar="NAME", help="default: this host")
    add(
        "--within",
        type=duration_ms,
        metavar="TIME",
        help="how long ago all that may be, as in 30s (default: the queue's lease)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit code."""
    with opened(arguments) as place:
        inspector = Inspector(place.executor, place.namespace)
        within = arguments.within
        limits = {q.queue_name: q.lease_ms if within is None else within for q in place.queues}
        found = {
            queue.queue_name: _best(
                [w for w in inspector.workers(queue) if w.host == arguments.host],
                limits[queue.queue_name],
            )
            for queue in place.queues
        }
    # Without --queue a host need not read every queue there is.
    read = found if arguments.queue else {n: worker for n, worker in found.items() if worker}
    troubles = {name: _trouble(worker, limits[name]) for name, worker in read.items()}
    ill = {name: trouble for name, trouble in troubles.items() if trouble}
    is_well = bool(read) and not ill
    if arguments.json:
        workers = [asdict(worker) for worker in read.values() if worker]
        answer = {"host": arguments.host, "healthy": is_well, "ill": list(ill)}
        print_json({**answer, "workers": workers})
    messages = ill or {"any queue": _NO_HEARTBEAT}
    for name, trouble in () if is_well else messages.items():
        where = printable(f"Host {arguments.host} has no well worker of {name}")
        print(f"{where}: {trouble}.", file=sys.stderr)
    return FINE if is_well else NEGATIVE


def _best(workers: list[WorkerState], limit_ms: int) -> WorkerState | None:
    """A worker that is well, or else the one that was heard of last."""
    heard = [worker for worker in workers if worker.heartbeat_age_ms is not None]
    heard.sort(key=lambda worker: worker.heartbeat_age_ms or 0)
    well = [worker for worker in heard if not _trouble(worker, limit_ms)]
    return next(iter([*well, *heard]), None)


def _trouble(worker: WorkerState | None, limit_ms: int) -> str:
    """What speaks against *worker*; nothing if it is well."""
    if worker is None or worker.heartbeat_age_ms is None:
        return _NO_HEARTBEAT
    if worker.heartbeat_age_ms > limit_ms:
        return f"its last heartbeat was {duration(worker.heartbeat_age_ms)} ago"
    if worker.attended_age_ms is None:
        return "it has not fetched yet"
    if worker.attended_age_ms > limit_ms:
        return f"it has not fetched for {duration(worker.attended_age_ms)}"
    if worker.unconfirmed_age_ms > limit_ms:
        return f"an acknowledgement waits for {duration(worker.unconfirmed_age_ms)}"
    return ""
