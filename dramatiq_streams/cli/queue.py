"""`dramatiq-streams queue`: pause, resume or empty a queue."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict

from dramatiq_streams.cli.place import FINE, NEGATIVE, Place, add_place, opened
from dramatiq_streams.cli.printing import counted, print_json, printable
from dramatiq_streams.errors import InvalidOption
from dramatiq_streams.inspector import Inspector
from dramatiq_streams.pauses import Pauses
from dramatiq_streams.queues import Purged, Queues
from dramatiq_streams.registry import Registration, Registry

_HELP = {
    "pause": "deliver nothing any more; what runs runs to its end",
    "resume": "let paused queues go on",
    "purge": "drop everything: waiting, delivered, delayed and dead",
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "queue", help="pause, resume or empty queues", description="Pause, resume or empty queues."
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    runs = {"pause": _pause, "resume": _resume, "purge": _purge}
    for name, text in _HELP.items():
        action = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        add_place(action)
        action.add_argument("--all", action="store_true", help="all queues, instead of --queue")
        if name == "purge":
            action.add_argument("--dry-run", action="store_true", help="only say how much would go")
        action.set_defaults(run=runs[name])


def _pause(arguments: argparse.Namespace) -> int:
    def pause(place: Place, queue: Registration) -> bool:
        # First, so that whatever is paused is found again.
        Registry(place.executor, place.namespace).note_new(queue)
        return Pauses(place.executor, place.scope(queue)).pause(queue.queue_name)

    return _change(arguments, pause, ("paused", "was paused already"))


def _resume(arguments: argparse.Namespace) -> int:
    def resume(place: Place, queue: Registration) -> bool:
        return Pauses(place.executor, place.scope(queue)).resume(queue.queue_name)

    return _change(arguments, resume, ("resumed", "was not paused"))


def _change(
    arguments: argparse.Namespace,
    change: Callable[[Place, Registration], bool],
    words: tuple[str, str],
) -> int:
    _require_queues(arguments)
    with opened(arguments) as place:
        changed = {queue.queue_name: change(place, queue) for queue in place.queues}
    if arguments.json:
        print_json({"queues": [{"queue": n, "changed": did} for n, did in changed.items()]})
    else:
        for name, did in changed.items():
            print(f"Queue {printable(name)}: {words[0] if did else words[1]}.")
    return FINE if changed else NEGATIVE


def _purge(arguments: argparse.Namespace) -> int:
    _require_queues(arguments)
    with opened(arguments) as place:
        dropped = {queue.queue_name: _drop(place, queue, arguments) for queue in place.queues}
    if arguments.json:
        queues = [{"queue": name, **asdict(purged)} for name, purged in dropped.items()]
        print_json({"queues": queues, "dry_run": arguments.dry_run})
    else:
        deed = "would be dropped" if arguments.dry_run else "dropped"
        for name, purged in dropped.items():
            number, dead = counted(purged.messages, "message"), counted(purged.dead, "dead letter")
            print(f"Queue {printable(name)}: {number} and {dead} {deed}.")
    return FINE if dropped else NEGATIVE


def _drop(place: Place, queue: Registration, arguments: argparse.Namespace) -> Purged:
    if not arguments.dry_run:
        return Queues(place.executor, place.scope(queue)).purge(queue.queue_name)
    [state] = Inspector(place.executor, place.namespace).queues([queue])
    return Purged(state.ready + state.pending + state.delayed, state.dead)


def _require_queues(arguments: argparse.Namespace) -> None:
    if bool(arguments.queue) == arguments.all:
        raise InvalidOption("Say which queues: either --queue, or --all for every queue there is.")
