"""Where a command looks: the server, the namespace and the queues, from the command line."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dramatiq.errors import ConnectionFailed

from dramatiq_streams.connections import Connections
from dramatiq_streams.embedded.url import SCHEME, directory_of
from dramatiq_streams.errors import InvalidOption
from dramatiq_streams.executor import Executor
from dramatiq_streams.lanes import Lanes
from dramatiq_streams.options import DEFAULT_NAMESPACE, checked_namespace, checked_queue_name
from dramatiq_streams.registry import Registration, Registry
from dramatiq_streams.scope import Scope

URL_VARIABLE = "DRAMATIQ_STREAMS_URL"
NAMESPACE_VARIABLE = "DRAMATIQ_STREAMS_NAMESPACE"
DEFAULT_URL = "redis://localhost"

#: Exit codes of every command.
FINE, NEGATIVE, USAGE, UNREACHABLE = 0, 1, 2, 3

#: What a command is called as a consumer; it never reads from a lane.
_CONSUMER = "dramatiq-streams"


def add_actions(
    parser: argparse.ArgumentParser,
    texts: Mapping[str, str],
    runs: Mapping[str, Callable[[argparse.Namespace], int]],
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Add a subcommand for each of *texts*, which say what it does, with the options of all.

    Yields:
        Its name and its parser, for its own options.
    """
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    for name, text in texts.items():
        action = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        add_place(action)
        action.set_defaults(run=runs[name])
        yield name, action


def add_place(parser: argparse.ArgumentParser, *, queues: bool = True) -> None:
    """Add the options that every command has; with *queues* those that choose some."""
    add = parser.add_argument_group("where").add_argument
    add(
        "--url",
        default=os.environ.get(URL_VARIABLE, DEFAULT_URL),
        metavar="URL",
        help=f"the server (default: ${URL_VARIABLE}, or {DEFAULT_URL})",
    )
    add(
        "--namespace",
        default=os.environ.get(NAMESPACE_VARIABLE, DEFAULT_NAMESPACE),
        metavar="NAME",
        help=f"begins every key (default: ${NAMESPACE_VARIABLE}, or {DEFAULT_NAMESPACE})",
    )
    if queues:
        add(
            "--queue",
            action="append",
            default=[],
            metavar="NAME",
            help="only this queue; repeatable (default: all that were ever used)",
        )
        add(
            "--lanes",
            metavar="A,B,C",
            help="the lanes, highest first (default: as the last broker had them)",
        )
        add(
            "--import",
            dest="module",
            metavar="MODULE",
            help="import this first; for modules that set dramatiq's encoder",
        )
    parser.add_argument(
        "--json", action="store_true", help="print JSON, whose fields stay as they are"
    )


@dataclass(frozen=True, slots=True)
class Place:
    """An open connection to a namespace, and the queues that were chosen."""

    executor: Executor
    namespace: str
    queues: tuple[Registration, ...]

    @property
    def queue_names(self) -> list[str]:
        """The names of the chosen queues."""
        return [registration.queue_name for registration in self.queues]

    @property
    def without_queues(self) -> str:
        """What to say when there are none."""
        return f"Namespace {self.namespace!r} has no queue that was ever used."

    def scope(self, registration: Registration) -> Scope:
        """The scope of one queue: each may have lanes of its own."""
        return Scope(self.namespace, Lanes.of(registration.lanes), _CONSUMER)

    def server_ms(self) -> int:
        """The server's clock, in milliseconds since 1970."""
        seconds, microseconds = self.executor.execute("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    def only_queue(self) -> Registration:
        """The queue, where there has to be exactly one.

        Raises:
            InvalidOption: There are several, or none.
        """
        if len(self.queues) == 1:
            return self.queues[0]
        if not self.queues:
            raise InvalidOption(self.without_queues)
        names = ", ".join(map(repr, self.queue_names))
        raise InvalidOption(f"Name one queue with --queue: there are {names}.")


def connections_to(url: str) -> Connections:
    """How to reach *url*, if there can be a server: no command makes an embedded one of its own.

    Raises:
        InvalidOption: *url* is not possible.
        ConnectionFailed: It names a directory that is not there.
    """
    connections = Connections(url=url, client=None, parameters={})
    if url.startswith(SCHEME) and not os.path.isdir(directory := directory_of(url)):
        raise ConnectionFailed(
            f"{url} means the directory {directory!r}, which does not exist."
            " It is made by the first program that sends or works there."
        )
    return connections


@contextmanager
def opened(arguments: argparse.Namespace) -> Iterator[Place]:
    """Connect as *arguments* say, and find the queues; say so at the end when there are none.

    Raises:
        InvalidOption: A value that is not possible, or a queue that was never used.
        BrokerConnectionError: The server cannot be reached.
    """
    namespace = checked_namespace(arguments.namespace)
    names = [checked_queue_name(name) for name in getattr(arguments, "queue", [])]
    given = _lanes(getattr(arguments, "lanes", None))
    _import(getattr(arguments, "module", None))
    executor = connections_to(arguments.url).shared()
    try:
        known = Registry(executor, namespace).queues()
        place = Place(executor, namespace, tuple(_chosen(known, names, given, namespace)))
        yield place
        if hasattr(arguments, "queue") and not place.queues:
            print(f"dramatiq-streams: {place.without_queues}", file=sys.stderr)
    finally:
        executor.close()


def _chosen(
    known: Sequence[Registration], names: Sequence[str], lanes: Lanes | None, namespace: str
) -> Iterator[Registration]:
    told = {registration.queue_name: registration for registration in known}
    for name in dict.fromkeys(names) or told:
        if name not in told and lanes is None:
            there = ", ".join(map(repr, told)) or "none"
            raise InvalidOption(
                f"Queue {name!r} was never used in namespace {namespace!r}; there are: {there}."
                " To look for it all the same, give its --lanes."
            )
        registration = told.get(name, Registration(name))
        if lanes is None:
            yield registration
        else:
            yield Registration(name, lanes.names, registration.lease_ms)


def _lanes(text: str | None) -> Lanes | None:
    return None if text is None else Lanes.of(text.split(","))


def _import(module: str | None) -> None:
    if module is None:
        return
    # As the `dramatiq` command does: modules lie where one works.
    sys.path.insert(0, os.getcwd())
    try:
        importlib.import_module(module)
    except Exception as error:
        # Whatever the module's own code raises, it cannot be used.
        raise InvalidOption(f"--import {module}: {type(error).__name__}: {error}") from error
