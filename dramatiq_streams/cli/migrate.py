"""`dramatiq-streams migrate`: take over the messages of dramatiq's own RedisBroker."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dramatiq.broker

from dramatiq_streams import clock
from dramatiq_streams.broker import StreamsBroker
from dramatiq_streams.cli.amounts import count, duration_ms
from dramatiq_streams.cli.place import FINE, NEGATIVE, Place, add_place, connections_to, opened
from dramatiq_streams.cli.printing import counted, print_json, print_table, printable
from dramatiq_streams.errors import InvalidOption
from dramatiq_streams.lanes import DEFAULT_LANES, Lanes
from dramatiq_streams.migration.layout import State
from dramatiq_streams.migration.moving import Account, Migration
from dramatiq_streams.migration.passages import Judge, Why
from dramatiq_streams.migration.source import Source, Survey
from dramatiq_streams.migration.target import Target
from dramatiq_streams.options import (
    DEFAULT_MAX_MESSAGE_BYTES,
    checked_namespace,
    checked_queue_name,
)

DEFAULT_SOURCE_NAMESPACE = "dramatiq"

#: How often the progress is told.
_PROGRESS_MS = 2_000

_EPILOG = (
    "--url and --namespace say where the messages go, as for every command; --from and"
    " --from-namespace say where they are. The exit code is 1 when some stay where they are."
)
_ADVICE = {
    Why.HELD: "stop the old workers, which gives them back; of a killed one they go after"
    " --heartbeat-timeout, or with --include-unacked",
    Why.ORPHANED: "RedisBroker itself would never run them; --include-unacked takes them",
    Why.TOO_LARGE: "raise --max-message-bytes",
    Why.UNDECODABLE: "--import the module that sets dramatiq's encoder, or make them dead letters"
    " with --bury-undecodable",
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "migrate",
        help="take over the messages of dramatiq's RedisBroker",
        description=(
            "Take over the messages of dramatiq's RedisBroker: waiting, delayed and dead."
            " Senders and workers may go on meanwhile, and the command may be interrupted and"
            " given again, at any instant: nothing is lost, and nothing is there twice."
        ),
        epilog=_EPILOG,
    )
    add_place(parser, queues=False)
    _add_source(parser.add_argument_group("from where").add_argument)
    _add_choices(parser.add_argument)
    parser.set_defaults(run=run)


def _add_source(add: Any) -> None:
    add("--from", dest="source", required=True, metavar="URL", help="the server of RedisBroker")
    add(
        "--from-namespace",
        metavar="NAME",
        help=f"RedisBroker's namespace there (default: {DEFAULT_SOURCE_NAMESPACE})",
    )
    add(
        "--queue",
        dest="names",
        action="append",
        default=[],
        metavar="NAME",
        help="only this queue; repeatable (default: all, found by SCAN on that server)",
    )
    add(
        "--heartbeat-timeout",
        type=duration_ms,
        default="60s",
        metavar="TIME",
        help="RedisBroker's option: a worker that is silent for so long is dead, and its messages"
        " are taken over (default: %(default)s)",
    )


def _add_choices(add: Any) -> None:
    add(
        "--lanes",
        metavar="A,B,C",
        help="the lanes, highest first (default: as the last broker had them)",
    )
    add(
        "--import",
        dest="module",
        metavar="MODULE",
        help="import this first: the encoder, the lanes, and the priorities of actors are its",
    )
    add(
        "--max-message-bytes",
        type=count,
        default=DEFAULT_MAX_MESSAGE_BYTES,
        metavar="N",
        help="what is larger stays where it is (default: %(default)s)",
    )
    add(
        "--bury-undecodable",
        action="store_true",
        help="make dead letters of what is no message, instead of leaving it",
    )
    add(
        "--include-unacked",
        action="store_true",
        help="take also what workers have: only when every old worker has ended",
    )
    add("--dry-run", action="store_true", help="only say what would be moved")


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit code."""
    source_namespace = _source_namespace(arguments)
    names = [checked_queue_name(name) for name in arguments.names]
    executor = connections_to(arguments.source).shared()
    try:
        with opened(arguments) as place:
            source = Source(
                executor, source_namespace, heartbeat_timeout_ms=arguments.heartbeat_timeout
            )
            return _migrate(arguments, source, place, names)
    finally:
        executor.close()


def _migrate(
    arguments: argparse.Namespace, source: Source, place: Place, names: Sequence[str]
) -> int:
    surveys = [source.survey(name) for name in dict.fromkeys(names) or source.queue_names()]
    if not arguments.json:
        old, new = printable(source.layout.namespace), printable(place.namespace)
        print(f"From namespace {old} to namespace {new}:")
        print_table(("queue", "state", "there", "held", "in transit"), _plan_rows(surveys))
    unknown = _unknown(surveys, place) if names else []
    progress = _Progress()
    migration = _migration(arguments, source, place, progress)
    with progress.told_at_the_end():
        for survey in surveys:
            # A queue that is moved becomes known, and a misspelt one had better not.
            if survey.queue_name not in unknown:
                migration.move(survey.queue_name)
    account = migration.account
    if arguments.json:
        print_json(_view(arguments, surveys, account))
    else:
        _print_account(account, is_dry=arguments.dry_run)
    if all(survey.is_empty for survey in surveys) and not source.was_used():
        return _say_where_else(arguments, source, place)
    for name in unknown:
        print(f"dramatiq-streams: RedisBroker has no trace of queue {name!r}.", file=sys.stderr)
    return NEGATIVE if account.left or unknown else FINE


def _migration(
    arguments: argparse.Namespace, source: Source, place: Place, progress: _Progress
) -> Migration:
    broker = dramatiq.broker.global_broker if arguments.module else None
    lanes = broker.options.lanes if isinstance(broker, StreamsBroker) else Lanes.of(DEFAULT_LANES)
    if arguments.lanes:
        lanes = Lanes.of(arguments.lanes.split(","))
    judge = Judge(
        actors=broker.actors if broker else {},
        max_bytes=arguments.max_message_bytes,
        bury_undecodable=arguments.bury_undecodable,
    )
    target = Target(place.executor, place.namespace, known=place.queues, lanes=lanes)
    return Migration(
        source,
        target,
        judge,
        is_dry=arguments.dry_run,
        include_unacked=arguments.include_unacked,
        tell=progress.tell,
    )


def _source_namespace(arguments: argparse.Namespace) -> str:
    """The namespace of RedisBroker, not to be confused with ours.

    Raises:
        InvalidOption: `--namespace` seems to be meant for it.
    """
    given = arguments.from_namespace
    if given is None and arguments.namespace == DEFAULT_SOURCE_NAMESPACE:
        raise InvalidOption(
            f"--namespace is where the messages go, and {DEFAULT_SOURCE_NAMESPACE!r} is where"
            " RedisBroker has them, unless it was told otherwise. If a StreamsBroker has that"
            f" namespace, confirm it with --from-namespace {DEFAULT_SOURCE_NAMESPACE}."
        )
    return checked_namespace(DEFAULT_SOURCE_NAMESPACE if given is None else given)


def _say_where_else(arguments: argparse.Namespace, source: Source, place: Place) -> int:
    text = f"There was never a RedisBroker in namespace {source.layout.namespace!r} there."
    if arguments.from_namespace is None:
        text += " If it was told to use another one, name that with --from-namespace."
    print(f"dramatiq-streams: {text}", file=sys.stderr)
    return NEGATIVE


def _unknown(surveys: Sequence[Survey], place: Place) -> list[str]:
    """The queues that neither RedisBroker has nor we have: one that was moved before is ours."""
    return [s.queue_name for s in surveys if s.is_empty and s.queue_name not in place.queue_names]


def _plan_rows(surveys: Sequence[Survey]) -> Iterator[tuple[object, ...]]:
    for survey in surveys:
        for state, there in survey.there.items():
            held = survey.held_of(state)
            in_transit = survey.in_transit if state is State.WAITING else ""
            if there or held or in_transit:
                yield survey.queue_name, state.value, there, held, in_transit


def _print_account(account: Account, *, is_dry: bool) -> None:
    columns = ("queue", "state", "found", "moved", "before", "left", "gone")
    rows = [
        (queue, state, t.found, t.moved, t.arrived_before, t.left.total(), t.gone)
        for (queue, state), t in account.tallies.items()
    ]
    print()
    print_table([("would move" if is_dry and c == "moved" else c) for c in columns], rows)
    deed = "would be moved" if is_dry else "moved"
    print(f"{counted(account.moved, 'message')} {deed}, {account.left.total()} left.")
    for why, number in account.left.items():
        print(f"Left: {number} {why}; {_ADVICE[why]}.")


def _view(
    arguments: argparse.Namespace, surveys: Sequence[Survey], account: Account
) -> dict[str, Any]:
    queues = [
        {
            "queue": queue,
            "state": state.value,
            "found": tally.found,
            "moved": tally.moved,
            "arrived_before": tally.arrived_before,
            "gone": tally.gone,
            "left": {why.name.lower(): number for why, number in tally.left.items()},
        }
        for (queue, state), tally in account.tallies.items()
    ]
    plan = [
        {"queue": s.queue_name, "state": state.value, "there": there, "held": s.held_of(state)}
        for s in surveys
        for state, there in s.there.items()
    ]
    left = account.left.total()
    return {
        "plan": plan,
        "queues": queues,
        "moved": account.moved,
        "left": left,
        "dry_run": arguments.dry_run,
    }


class _Progress:
    """Says now and then how far it is."""

    def __init__(self) -> None:
        self._told_ms = clock.monotonic_ms()
        self._text = "nothing moved"

    def tell(self, account: Account) -> None:
        """Note how far it is, and say it if it was not said lately."""
        self._text = f"{account.moved} moved, {account.left.total()} left"
        if clock.monotonic_ms() - self._told_ms >= _PROGRESS_MS:
            self._told_ms = clock.monotonic_ms()
            self._say()

    @contextmanager
    def told_at_the_end(self) -> Iterator[None]:
        """Say how far it came until something went wrong: calling again does the rest."""
        try:
            yield
        except BaseException:
            self._say("until then: ")
            raise

    def _say(self, before: str = "") -> None:
        print(f"dramatiq-streams: {before}{self._text}", file=sys.stderr, flush=True)
