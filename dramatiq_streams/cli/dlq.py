"""`dramatiq-streams dlq`: list, show, redrive, purge and export dead letters."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TextIO

from dramatiq_streams.browsing import is_entry_id
from dramatiq_streams.cli.amounts import count, duration_ms, rate_per_s
from dramatiq_streams.cli.place import FINE, NEGATIVE, Place, add_actions, opened
from dramatiq_streams.cli.printing import (
    as_json,
    counted,
    duration,
    first_page,
    print_fields,
    print_json,
    print_page,
    printable,
)
from dramatiq_streams.cli.rehearsal import Rehearsal
from dramatiq_streams.cli.views import call, letter_view
from dramatiq_streams.dead_letters import PAGE, DeadLetters, Outcome, Reason, Redrive
from dramatiq_streams.errors import InvalidOption
from dramatiq_streams.letters import Letter, LetterFilter
from dramatiq_streams.lifetimes import Lifetimes
from dramatiq_streams.registry import Registration

_HEADINGS = ("letter", "queue", "age", "reason", "deliveries", "call", "error")
_COUNTED = {Outcome.SENT: "redriven", Outcome.GONE: "gone", Outcome.HELD: "held"}
_ACTIONS = {
    "ls": "list dead letters, oldest first",
    "show": "show all that is known of dead letters",
    "redrive": "send dead letters round again, with their retries as if they were new",
    "purge": "drop dead letters for good",
    "export": "write dead letters as JSON Lines",
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "dlq",
        help="list, show, redrive, purge and export dead letters",
        description="List, show, redrive, purge and export dead letters.",
    )
    runs = {"ls": _list, "show": _show, "redrive": _redrive, "purge": _purge, "export": _export}
    for name, action in add_actions(parser, _ACTIONS, runs):
        _add_filters(action)
        _add_options(action, name)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group(
        "which", "All that is given has to be so; what is repeatable is one of these."
    ).add_argument
    add("--actor", action="append", default=[], metavar="NAME", help="of this actor; repeatable")
    reasons = [reason.value for reason in Reason]
    text = f"dead for this, repeatable: {', '.join(reasons)}"
    add("--reason", action="append", choices=reasons, default=[], metavar="WORD", help=text)
    add(
        "--id",
        action="append",
        default=[],
        metavar="ID",
        help="of a message or a dead letter; repeatable",
    )
    add("--older-than", type=duration_ms, metavar="TIME", help="dead for longer: 90s, 15m, 2h, 7d")
    add("--newer-than", type=duration_ms, metavar="TIME", help="dead for less than this")
    add("--text", default="", metavar="TEXT", help="in the error, the traceback or the message")


def _add_options(parser: argparse.ArgumentParser, action: str) -> None:
    add = parser.add_argument
    if action == "ls":
        add("--limit", type=count, default=20, metavar="N", help="how many (default: %(default)s)")
        add("--after", metavar="LETTER", help="go on where another page has ended: its `next`")
    if action == "redrive":
        add(
            "--rate",
            type=rate_per_s,
            metavar="N/s",
            help="no more than so many: 10/s, 600/m; without a unit per second",
        )
    if action in ("redrive", "purge"):
        add("--limit", type=count, metavar="N", help="so many at most")
        add("--all", action="store_true", help="all dead letters, where no filter is given")
        add("--dry-run", action="store_true", help="only say what would be done")
    if action == "export":
        add("--out", type=Path, metavar="FILE", help="a file that is not there (default: print)")


def _list(arguments: argparse.Namespace) -> int:
    with opened(arguments) as place:
        queue, now_ms = place.only_queue(), place.server_ms()
        wanted = _wanted(arguments, now_ms)
        after = _checked_letter(arguments.after)
        walk = _dead_letters(place, queue).letters(queue.queue_name, wanted, after=after)
        page, following = first_page(walk, arguments.limit, lambda letter: letter.letter_id)
    views = [letter_view(letter, now_ms=now_ms) for letter in page]
    print_page("letters", views, following, table=(_HEADINGS, _row), as_json=arguments.json)
    return FINE


def _show(arguments: argparse.Namespace) -> int:
    with opened(arguments) as place:
        now_ms = place.server_ms()
        views = [letter_view(letter, now_ms=now_ms) for _, letter in _found(place, arguments)]
    ids = {view[name] for view in views for name in ("letter", "message_id")}
    missing = [letter for letter in dict.fromkeys(arguments.id) if letter not in ids]
    if arguments.json:
        print_json({"letters": views, "missing": missing})
    else:
        for view in views:
            print_fields(view, now_ms=now_ms)
        for letter in missing:
            print(f"{printable(letter)}: there is no such dead letter")
        if not views and not missing:
            print("There is no such dead letter.")
    return FINE if views and not missing else NEGATIVE


def _redrive(arguments: argparse.Namespace) -> int:
    _require_choice(arguments)
    counts = {"matched": 0, "redriven": 0, "gone": 0, "held": 0}
    with opened(arguments) as place, _accounted(counts):
        rehearsal = Rehearsal(place) if arguments.dry_run else None
        for letters, letter in islice(_found(place, arguments), arguments.limit):
            if arguments.rate and counts["matched"] and not rehearsal:
                time.sleep(1 / arguments.rate)
            counts["matched"] += 1
            done = rehearsal.redrive(letter) if rehearsal else letters.redrive(letter)
            if done.outcome is Outcome.HELD:
                _tell_held(letter, done, is_dry=arguments.dry_run)
            if done.outcome is Outcome.HELD or not rehearsal:
                counts[_COUNTED[done.outcome]] += 1
    deed = "would be sent again" if arguments.dry_run else "sent again"
    number = counts["matched"] - counts["held"] - counts["gone"]
    _report(arguments, counts, f"{counted(number, 'dead letter')} {deed}.")
    return NEGATIVE if counts["held"] else FINE


def _tell_held(letter: Letter, done: Redrive, *, is_dry: bool) -> None:
    stays, then = ("would stay", " by then") if is_dry else ("stays", "")
    text = f"letter {letter.letter_id} of queue {letter.queue!r} {stays}: message {done.holder}"
    print(f"dramatiq-streams: {printable(text)} has its unique key{then}.", file=sys.stderr)


def _purge(arguments: argparse.Namespace) -> int:
    _require_choice(arguments)
    counts = {"matched": 0, "purged": 0}
    with opened(arguments) as place, _accounted(counts):
        walk = islice(_found(place, arguments), arguments.limit)
        while page := list(islice(walk, PAGE)):
            counts["matched"] += len(page)
            if not arguments.dry_run:
                for letters, group in groupby(page, key=itemgetter(0)):
                    counts["purged"] += letters.remove([letter for _, letter in group])
    deed = "would be dropped" if arguments.dry_run else "dropped"
    done = counts["matched" if arguments.dry_run else "purged"]
    return _report(arguments, counts, f"{counted(done, 'dead letter')} {deed}.")


def _export(arguments: argparse.Namespace) -> int:
    exported = 0
    with opened(arguments) as place, _written(arguments.out) as out:
        now_ms = place.server_ms()
        for _, letter in _found(place, arguments):
            view = letter_view(letter, now_ms=now_ms)
            out.write(json.dumps(view, default=as_json) + "\n")
            exported += 1
    print(f"{counted(exported, 'dead letter')} exported.", file=sys.stderr)
    return FINE


def _dead_letters(place: Place, queue: Registration) -> DeadLetters:
    # Nothing expires here: the workers see to that.
    return DeadLetters(place.executor, place.scope(queue), lifetimes=Lifetimes())


def _found(place: Place, arguments: argparse.Namespace) -> Iterator[tuple[DeadLetters, Letter]]:
    wanted = _wanted(arguments, place.server_ms())
    for queue in place.queues:
        letters = _dead_letters(place, queue)
        for letter in letters.letters(queue.queue_name, wanted):
            yield letters, letter


def _wanted(arguments: argparse.Namespace, now_ms: int) -> LetterFilter:
    older, newer = arguments.older_than, arguments.newer_than
    return LetterFilter(
        actors=frozenset(arguments.actor),
        reasons=frozenset(arguments.reason),
        ids=frozenset(arguments.id),
        died_before_ms=None if older is None else now_ms - older,
        died_after_ms=None if newer is None else max(now_ms - newer, 0),
        text=arguments.text,
    )


def _require_choice(arguments: argparse.Namespace) -> None:
    has_filter = _wanted(arguments, 0) != LetterFilter()
    if has_filter == arguments.all:
        raise InvalidOption("Say which dead letters: either by a filter, or --all.")


def _checked_letter(text: str | None) -> str | None:
    if text is not None and not is_entry_id(text):
        raise InvalidOption.of("after", text, "the id of a dead letter, as in 1767225600000-0")
    return text


@contextmanager
def _accounted(counts: dict[str, int]) -> Iterator[None]:
    """Say what was done until something went wrong: calling again does the rest."""
    try:
        yield
    except BaseException:
        print(f"dramatiq-streams: until then: {counts}", file=sys.stderr)
        raise


@contextmanager
def _written(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    try:
        file = path.open("x", encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", error)
        raise InvalidOption(f"--out {path}: {why}; it has to be a new file.") from error
    with file:
        yield file


def _report(arguments: argparse.Namespace, counts: dict[str, int], sentence: str) -> int:
    if arguments.json:
        print_json({**counts, "dry_run": arguments.dry_run})
    else:
        print(sentence)
    return FINE


def _row(view: dict[str, Any]) -> tuple[object, ...]:
    names = ("letter", "queue", "reason", "deliveries", "error")
    letter, queue, reason, deliveries, error = (view[name] for name in names)
    return letter, queue, duration(view["age_ms"]), reason, deliveries, call(view), error
