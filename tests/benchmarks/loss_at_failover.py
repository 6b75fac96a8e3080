"""How many confirmed messages a failover loses, with and without `min-replicas-to-write`.

Run it from the root of the repository: `python -m tests.benchmarks.loss_at_failover`. It starts its
own servers and sentinels, and takes about a minute.
"""

import socket
import socketserver
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import dramatiq
from dramatiq.errors import BrokerConnectionError

from dramatiq_streams import StreamsBroker
from tests.benchmarks.asking import ask
from tests.support.sentinels import Deployment

#: Seconds of sending with everything in order, and then with the link cut, before the master dies.
LOAD_SECONDS = 3.0
CUT_OFF_SECONDS = 5.0

CAREFUL = ("min-replicas-to-write 1", "min-replicas-max-lag 1")


@dataclass(slots=True)
class Sent:
    """What was confirmed, and when, on the monotonic clock."""

    at: dict[str, float] = field(default_factory=dict)
    refused: int = 0


class Link(socketserver.ThreadingTCPServer):
    """The network between the master and its replica, until it swallows what is sent."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self._port = 0
        self._is_cut = threading.Event()

    def to(self, port: int) -> int:
        """Lead to *port* from now on; returns the port to connect to."""
        self._port = port
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return int(self.server_address[1])

    def cut(self) -> None:
        """From now on nothing arrives, and nobody is told."""
        self._is_cut.set()

    def finish_request(self, request: Any, client_address: Any) -> None:
        try:
            master = socket.create_connection(("127.0.0.1", self._port))
        except OSError:  # it is dead
            return
        with master:
            back = threading.Thread(target=self._pump, args=(master, request), daemon=True)
            back.start()
            self._pump(request, master)
            back.join()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                if not self._is_cut.is_set():
                    target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other direction has ended it
            return


def main() -> None:
    """Print a row for each way to fail and each configuration."""
    _print("| replica | min-replicas-to-write | confirmed | refused | lost | taken within |")
    _print("|---|---|---|---|---|---|")
    for is_cut_off in (False, True):
        for config in ((), CAREFUL):
            _print(_row(config, is_cut_off=is_cut_off))


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _row(config: Sequence[str], *, is_cut_off: bool) -> str:
    with (
        Link() as link,
        Deployment(config=config, link=link.to, failover_timeout_ms=60_000) as deployment,
    ):
        sent = _load(deployment, link if is_cut_off else None)
        deployment.wait_for_failover()
        stored = _stored(deployment)
    lost = [at for message_id, at in sent.at.items() if message_id not in stored]
    window = f"{max(lost) - min(lost):.1f} s" if lost else "-"
    replica = f"cut off for {CUT_OFF_SECONDS:.0f} s" if is_cut_off else "in touch"
    return (
        f"| {replica} | {1 if config else 0} | {len(sent.at):,} | {sent.refused:,}"
        f" | {len(lost):,} | {window} |"
    )


def _load(deployment: Deployment, link: Link | None) -> Sent:
    broker = StreamsBroker(url=deployment.url, middleware=[])
    sent = Sent()
    _send_for(LOAD_SECONDS, broker, sent)
    if link is not None:
        link.cut()
        _send_for(CUT_OFF_SECONDS, broker, sent)
    deployment.master.kill()
    broker.close()
    return sent


def _send_for(seconds: float, broker: StreamsBroker, sent: Sent) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        message: dramatiq.Message[Any] = dramatiq.Message("default", "work", (), {}, {})
        try:
            broker.enqueue(message)
        except BrokerConnectionError:
            sent.refused += 1
            time.sleep(0.01)
        else:
            sent.at[message.message_id] = time.monotonic()


def _stored(deployment: Deployment) -> set[str]:
    lane = "{dramatiq-streams:default:0}:lane:default"
    entries: list[Any] = deployment.replica.client().xrange(lane)  # type: ignore[assignment]
    return {dramatiq.Message.decode(fields[b"m"]).message_id for _, fields in entries}


if __name__ == "__main__":
    ask(__doc__)
    main()
