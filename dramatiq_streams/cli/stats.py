"""`dramatiq-streams stats`: how much waits, runs, is delayed and is dead, per queue and lane."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from dramatiq_streams.cli.amounts import seconds
from dramatiq_streams.cli.place import FINE, add_place, opened
from dramatiq_streams.cli.printing import duration, print_json, print_table
from dramatiq_streams.inspector import Inspector, QueueState

_HEADINGS = (
    "queue", "lane", "ready", "pending", "delayed", "dead", "cancelling", "oldest ready",
    "oldest pending", "next due", "workers", "delivered/s",
)  # fmt: skip


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "stats",
        help="how much waits, runs, is delayed and is dead",
        description="Show how much waits, runs, is delayed and is dead, per queue and lane.",
        epilog="Cancelling are the cancelled messages whose turn to be dropped is still to come;"
        " until then they count as ready or pending. Delivered per second needs a server that"
        " counts deliveries: Redis 7, or Valkey.",
    )
    add_place(parser)
    parser.add_argument(
        "--interval",
        type=seconds,
        metavar="SECONDS",
        help="look twice, this far apart, and show what was delivered in between",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit code."""
    with opened(arguments) as place:
        inspector = Inspector(place.executor, place.namespace)
        states = before = inspector.queues(place.queues)
        if arguments.interval is not None:
            time.sleep(arguments.interval)
            states = inspector.queues(place.queues)
    views = [_view(then, now) for then, now in zip(before, states, strict=True)]
    if arguments.json:
        print_json({"namespace": place.namespace, "queues": views})
    else:
        print_table(_HEADINGS, _rows(views))
    return FINE


def _view(then: QueueState, now: QueueState) -> dict[str, Any]:
    """The fields of one queue, as JSON has them."""
    earlier = {lane.lane: lane.delivered for lane in then.lanes}
    passed_ms = now.server_ms - then.server_ms
    return {
        **asdict(now),
        "ready": now.ready,
        "pending": now.pending,
        "delivered": now.delivered,
        "delivered_per_s": _rate(then.delivered, now.delivered, passed_ms),
        "ready_per_s": _rate(then.ready, now.ready, passed_ms),
        "lanes": [
            {
                **asdict(lane),
                "delivered_per_s": _rate(earlier[lane.lane], lane.delivered, passed_ms),
            }
            for lane in now.lanes
        ],
    }


def _rate(then: int | None, now: int | None, passed_ms: int) -> float | None:
    if passed_ms <= 0 or now is None:
        return None
    # It was not counted until the first delivery.
    return round((now - (then or 0)) * 1000 / passed_ms, 3)


def _rows(views: Sequence[dict[str, Any]]) -> Iterator[Sequence[object]]:
    for view in views:
        paused = view["paused_for_ms"]
        yield (
            view["queue"],
            "all" if paused is None else f"all, paused for {duration(paused)}",
            view["ready"],
            view["pending"],
            view["delayed"],
            view["dead"],
            view["cancelling"],
            _oldest(view["lanes"], "oldest_ready_age_ms"),
            _oldest(view["lanes"], "oldest_pending_age_ms"),
            duration(view["next_due_ms"]),
            view["consumers"],
            view["delivered_per_s"],
        )
        for lane in view["lanes"]:
            ages = lane["oldest_ready_age_ms"], lane["oldest_pending_age_ms"]
            amounts = lane["ready"], lane["pending"], "", "", ""
            rest = *map(duration, ages), "", "", lane["delivered_per_s"]
            yield "", lane["lane"], *amounts, *rest


def _oldest(lanes: Sequence[dict[str, Any]], name: str) -> str | None:
    return duration(max((lane[name] for lane in lanes if lane[name] is not None), default=None))
