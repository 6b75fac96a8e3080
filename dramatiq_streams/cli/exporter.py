"""`dramatiq-streams exporter`: the state of the queues, for Prometheus."""

from __future__ import annotations

import argparse
import signal
import threading
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server

from dramatiq_streams.cli.place import FINE, add_place, connections_to
from dramatiq_streams.errors import InvalidOption
from dramatiq_streams.metrics.collector import QueueCollector
from dramatiq_streams.options import checked_namespace

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9192


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "exporter",
        help="serve the state of the queues to Prometheus",
        description=(
            "Serve the state of all queues to Prometheus, until SIGTERM or Ctrl-C."
            " They are looked at, in one pipelined call, whenever Prometheus asks."
        ),
        epilog="Run one exporter per namespace; what workers do is told by the workers.",
    )
    add_place(parser, queues=False)
    parser.add_argument(
        "--host",
        default=DEFAULT_HOST,
        metavar="ADDRESS",
        help=f"the address to listen on (default: {DEFAULT_HOST})",
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        metavar="PORT",
        help=f"the port to listen on, 0 for any that is free (default: {DEFAULT_PORT})",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit code."""
    namespace = checked_namespace(arguments.namespace)
    executor = connections_to(arguments.url).shared()
    registry = CollectorRegistry()
    registry.register(QueueCollector(executor, namespace))
    stopping = threading.Event()
    previous = signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    try:
        _serve(arguments, registry, stopping)
    finally:
        signal.signal(signal.SIGTERM, previous)
        executor.close()
    return FINE


def _serve(
    arguments: argparse.Namespace, registry: CollectorRegistry, stopping: threading.Event
) -> None:
    try:
        server, thread = start_http_server(arguments.port, arguments.host, registry)
    except (OSError, ValueError) as error:
        place = f"--host {arguments.host} --port {arguments.port}"
        raise InvalidOption(f"Nothing can listen on {place}: {error}") from error
    host, port = _address(server)
    print(f"http://{host}:{port}/metrics", flush=True)
    try:
        stopping.wait()
    except KeyboardInterrupt:
        stopping.set()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _address(server: Any) -> tuple[str, int]:
    host, port = server.server_address[:2]
    return (f"[{host}]" if ":" in host else host), port


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: it must be from 0 to 65535")
    return int(text)
