"""`dramatiq-streams locks`: list, show and release what keeps messages from being sent or run."""

from __future__ import annotations

import argparse
from typing import Any

from dramatiq_streams.cli.amounts import count
from dramatiq_streams.cli.lock_search import Kind, Lock, LockFilter, LockSearch
from dramatiq_streams.cli.place import FINE, NEGATIVE, Place, add_actions, opened
from dramatiq_streams.cli.printing import (
    counted,
    first_page,
    print_fields,
    print_json,
    print_page,
    printable,
    span,
)
from dramatiq_streams.errors import InvalidOption
from dramatiq_streams.middleware.idempotency.options import DEFAULT_PREFIX, checked_prefix
from dramatiq_streams.middleware.idempotency.records import State

_HEADINGS = ("kind", "queue", "key", "message", "ends in", "state", "worker")
_ACTIONS = {
    "ls": "list the keys that messages have, and those under which something runs",
    "show": "show all that is known of keys",
    "release": "free keys for the next message, whoever has them",
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "locks",
        help="list, show and release unique keys and idempotency keys",
        description="List, show and release the keys that keep a second message from being sent"
        " (unique_for, unique_until) or run (idempotency_key).",
    )
    runs = {"ls": _list, "show": _show, "release": _release}
    for name, action in add_actions(parser, _ACTIONS, runs):
        _add_filters(action)
        _add_options(action, name)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("which", "All that is given has to be so.").add_argument
    kinds = [kind.value for kind in Kind]
    add("--kind", choices=kinds, help="only these; with --queue: unique, for the others have none")
    add("--actor", action="append", default=[], metavar="NAME", help="of this actor; repeatable")
    add("--text", default="", metavar="TEXT", help="in the key or the id of the message")
    add(
        "--key-prefix",
        default=DEFAULT_PREFIX,
        metavar="NAME",
        help="the option key_prefix of Idempotency (default: %(default)s)",
    )


def _add_options(parser: argparse.ArgumentParser, action: str) -> None:
    add = parser.add_argument
    if action == "ls":
        add("--limit", type=count, default=20, metavar="N", help="how many (default: %(default)s)")
        add("--after", metavar="CURSOR", help="go on where another page has ended: its `next`")
    if action == "show":
        add("keys", nargs="+", metavar="KEY", help="as `ls` has it")
    if action == "release":
        add("keys", nargs="*", metavar="KEY", help="as `ls` has it")
        add("--all", action="store_true", help="all that `ls` has, where nothing else is given")
        add("--dry-run", action="store_true", help="only say what would be done")


def _list(arguments: argparse.Namespace) -> int:
    with opened(arguments) as place:
        search = _search(place, arguments)
        walk = search.held(_wanted(arguments), after=arguments.after or None)
        page, following = first_page(walk, arguments.limit, lambda lock: lock.cursor)
        now_ms = place.server_ms()
    views = [lock.view(now_ms) for lock in page]
    print_page("locks", views, following, table=(_HEADINGS, _row), as_json=arguments.json)
    return FINE


def _show(arguments: argparse.Namespace) -> int:
    with opened(arguments) as place:
        search, wanted = _search(place, arguments), _wanted(arguments)
        found = {key: search.find(key, wanted) for key in arguments.keys}
        now_ms = place.server_ms()
    views = [lock.view(now_ms) for locks in found.values() for lock in locks]
    missing = [key for key, locks in found.items() if not locks]
    if arguments.json:
        print_json({"locks": views, "missing": missing})
    else:
        for view in views:
            print_fields(_shown(view), now_ms=now_ms)
        for key in missing:
            print(f"{printable(key)}: {_SENTENCES['missing']}")
    return NEGATIVE if missing else FINE


def _release(arguments: argparse.Namespace) -> int:
    _require_choice(arguments)
    results: list[dict[str, Any]] = []
    with opened(arguments) as place:
        search, wanted = _search(place, arguments), _wanted(arguments)
        locks: list[Lock] = []
        for key in arguments.keys:
            found = search.find(key, wanted)
            locks += found
            results += [] if found else [{"key": key, "outcome": "missing"}]
        # All of them first: to free them while they are listed would skip some.
        locks += [] if arguments.keys else list(search.held(wanted))
        for lock in locks:
            outcome = "missing" if lock.is_free else "would be released"
            if not arguments.dry_run:
                outcome = "released" if search.release(lock) else "missing"
            results.append(_result(lock, outcome))
    _report(arguments, results)
    return NEGATIVE if any(result["outcome"] == "missing" for result in results) else FINE


_SENTENCES = {
    "released": "released; the next message with this key is sent, or run",
    "would be released": "would be released",
    "missing": "nobody has this key (any more)",
}


def _result(lock: Lock, outcome: str) -> dict[str, Any]:
    view = lock.view(0)
    names = ("key", "kind", "queue", "message_id")
    return {**{name: view[name] for name in names}, "outcome": outcome}


def _report(arguments: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    if arguments.json:
        print_json({"locks": results, "dry_run": arguments.dry_run})
        return
    for result in results:
        print(f"{printable(result['key'])}: {_SENTENCES[result['outcome']]}")
    done = sum(result["outcome"] != "missing" for result in results)
    deed = "would be released" if arguments.dry_run else "released"
    print(f"{counted(done, 'key')} {deed}.")
    if not results:
        print("Idempotency keys that are done or have failed are found by their names only.")


def _search(place: Place, arguments: argparse.Namespace) -> LockSearch:
    return LockSearch(place, prefix=checked_prefix(arguments.key_prefix))


def _wanted(arguments: argparse.Namespace) -> LockFilter:
    kinds = frozenset(Kind) if arguments.kind is None else frozenset({Kind(arguments.kind)})
    if arguments.queue:
        if arguments.kind == Kind.IDEMPOTENCY:
            raise InvalidOption(
                f"--kind {Kind.IDEMPOTENCY} finds nothing with --queue: these keys belong to no"
                " queue. Leave one of them out."
            )
        kinds = frozenset({Kind.UNIQUE})
    return LockFilter(kinds, frozenset(arguments.actor), arguments.text)


def _require_choice(arguments: argparse.Namespace) -> None:
    has_filter = bool(arguments.actor or arguments.text or arguments.kind or arguments.queue)
    if sum((bool(arguments.keys), has_filter and not arguments.keys, arguments.all)) != 1:
        raise InvalidOption("Say which keys: by name, by a filter, or --all.")


def _shown(view: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in view.items() if value is not None}
    if view["state"] == State.PENDING:
        fields["state"] = f"{State.PENDING} (free: nothing runs under this key, or is done)"
    return fields


def _row(view: dict[str, Any]) -> tuple[object, ...]:
    names = ("kind", "queue", "key", "message_id", "state", "worker")
    kind, queue, key, message_id, state, worker = (view[name] for name in names)
    return kind, queue, key, message_id, span(view["ends_in_ms"]), state, worker
