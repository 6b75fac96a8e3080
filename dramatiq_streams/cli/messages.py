"""`dramatiq-streams messages`: list, show and cancel messages that are not done."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from dramatiq_streams.browsing import Browsing, State, StoredMessage
from dramatiq_streams.cancellations import Cancellation, Cancellations, Outcome, Search
from dramatiq_streams.cli.amounts import count
from dramatiq_streams.cli.place import FINE, NEGATIVE, Place, add_place, opened
from dramatiq_streams.cli.printing import (
    duration,
    first_page,
    print_fields,
    print_json,
    print_page,
    printable,
    span,
)
from dramatiq_streams.cli.views import call, message_view

#: How often a message that moves on while it is being cancelled is looked for again.
_ATTEMPTS = 3

_HEADINGS = ("message", "lane", "state", "age", "due in", "deliveries", "worker", "call")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "messages",
        help="list, show and cancel messages that are not done",
        description="List, show and cancel messages that wait, run or are delayed.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    _add_list(actions)
    for name, text, run in (
        ("show", "show all that is known of a message", _show),
        ("cancel", "cancel messages: those that did not start will not run", _cancel),
    ):
        action = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        add_place(action)
        action.add_argument("ids", nargs="+", metavar="ID", help="the id of a message")
        action.add_argument(
            "--limit",
            type=count,
            default=1_000_000,
            metavar="N",
            help="look through so many messages at most (default: %(default)s)",
        )
        if name == "cancel":
            action.add_argument("--dry-run", action="store_true", help="only say what would happen")
        action.set_defaults(run=run)


def _add_list(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    action = actions.add_parser(
        "ls", help="list messages", description="List messages of one queue, next ones first."
    )
    add_place(action)
    add = action.add_argument
    states = [state.value for state in State]
    add("--state", choices=states, default=State.READY.value, help="default: %(default)s")
    add("--limit", type=count, default=20, metavar="N", help="how many (default: %(default)s)")
    add("--after", metavar="CURSOR", help="go on where another page has ended: its `next`")
    action.set_defaults(run=_list)


def _list(arguments: argparse.Namespace) -> int:
    with opened(arguments) as place:
        queue = place.only_queue()
        browsing = Browsing(place.executor, place.scope(queue))
        walk = browsing.messages(
            queue.queue_name, State(arguments.state), after=arguments.after or None
        )
        page, following = first_page(walk, arguments.limit, lambda message: message.cursor)
        views = _views(place, browsing, page)
    print_page("messages", views, following, table=(_HEADINGS, _row), as_json=arguments.json)
    return FINE


def _show(arguments: argparse.Namespace) -> int:
    views: list[dict[str, Any]] = []
    missing: list[str] = []
    with opened(arguments) as place:
        for message_id in arguments.ids:
            found = []
            for browsing, _, search in _searches(place, message_id, arguments.limit):
                found += _views(place, browsing, search.found)
            views += found
            missing += [] if found else [message_id]
        now_ms = place.server_ms()
    if arguments.json:
        print_json({"messages": views, "missing": missing})
    else:
        for view in views:
            print_fields(view, now_ms=now_ms)
        _print_missing(missing)
    return NEGATIVE if missing else FINE


def _cancel(arguments: argparse.Namespace) -> int:
    results: list[dict[str, Any]] = []
    with opened(arguments) as place:
        for message_id in arguments.ids:
            results += _cancel_one(place, message_id, arguments)
    if arguments.json:
        print_json({"messages": results, "dry_run": arguments.dry_run})
    else:
        for result in results:
            print(f"{printable(result['message_id'])}: {_SENTENCES[result['outcome']]}")
    is_done = all(r["outcome"] in (Outcome.CANCELLED, "would be cancelled") for r in results)
    return FINE if is_done else NEGATIVE


_SENTENCES = {
    Outcome.CANCELLED: "cancelled; it will not run",
    Outcome.HELD: "a worker has it and goes on with it; it is not delivered again",
    "would be cancelled": "would be cancelled",
    "would be held": "a worker has it and would go on with it",
    "missing": "there is no such message: it is done or dead, or was never sent",
    "not found": "not found among the messages looked through; raise --limit",
}


def _cancel_one(
    place: Place, message_id: str, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    for _ in range(_ATTEMPTS):
        results, has_moved, is_cut_short = [], False, False
        for _, cancellations, search in _searches(place, message_id, arguments.limit):
            is_cut_short |= search.is_cut_short
            for message in search.found:
                if arguments.dry_run:
                    held = message.state is State.PENDING
                    outcome = "would be held" if held else "would be cancelled"
                    results.append(_result(message_id, outcome, message))
                    continue
                done = cancellations.cancel(message)
                has_moved |= done is None
                if isinstance(done, Cancellation):
                    results.append(_result(message_id, done.outcome.value, message))
        if results:
            return results
        if not has_moved:
            break
    return [_result(message_id, "not found" if is_cut_short else "missing", None)]


def _result(message_id: str, outcome: str, message: StoredMessage | None) -> dict[str, Any]:
    return {
        "message_id": message_id,
        "outcome": outcome,
        "queue": message.queue if message else None,
        "consumer": message.consumer if message else None,
    }


def _searches(
    place: Place, message_id: str, limit: int
) -> Iterator[tuple[Browsing, Cancellations, Search]]:
    """One search for each queue, all of them together within the *limit*."""
    for queue in place.queues:
        scope = place.scope(queue)
        browsing = Browsing(place.executor, scope)
        cancellations = Cancellations(place.executor, scope, browsing)
        search = cancellations.search([queue.queue_name], message_id, limit=limit)
        limit = max(limit - search.looked_at, 0)
        yield browsing, cancellations, search


def _views(place: Place, browsing: Browsing, page: Sequence[StoredMessage]) -> list[dict[str, Any]]:
    now_ms = place.server_ms()
    return [
        message_view(message, now_ms=now_ms, is_cancelled=is_cancelled)
        for message, is_cancelled in zip(page, browsing.marks(page), strict=True)
    ]


def _row(view: dict[str, Any]) -> tuple[object, ...]:
    return (
        view["message_id"] or view["place"],
        view["lane"],
        "cancelled" if view["is_cancelled"] else view["state"],
        duration(view["age_ms"]),
        span(view["due_in_ms"]),
        view["deliveries"],
        view["consumer"],
        call(view),
    )


def _print_missing(missing: Sequence[str]) -> None:
    for message_id in missing:
        print(f"{printable(message_id)}: {_SENTENCES['missing']}")
