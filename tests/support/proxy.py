"""A loopback TCP proxy in front of a server that loses requests and replies on command."""

import contextlib
import math
import re
import socket
import socketserver
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from dramatiq.logging import get_logger

from .resp import arguments, read_frame
from .servers import Server
from .waiting import wait_until

_logger = get_logger(__name__)

_POLL_SECONDS = 0.02
# A slow connection brings a piece of a reply this often.
_PIECE_SECONDS = 0.02


@dataclass(slots=True)
class _Fault:
    kind: str  # "drop_before", "drop_reply" or "delay"
    pattern: re.Pattern[bytes]
    times: int
    seconds: float = 0.0


class FaultyProxy:
    """Forwards RESP to *upstream* and breaks what it is told to; the tests' only fault in the wire.

    A pattern is a regular expression, searched in the request's arguments joined by spaces, command
    first: `rb"^XADD "`. It sees what the client sends: redis-py's `incr` is `INCRBY`, a script is
    `EVALSHA` and its hash. A fault strikes the next *times* requests that match, on any connection.
    Each request is expected to have one reply, so publish and subscribe, MONITOR and CLIENT REPLY
    do not work through it.

    Args:
        upstream: The server, or the path of a unix socket, or a host and a port.
    """

    def __init__(self, upstream: Server | str | tuple[str, int]) -> None:
        self.counts: Counter[str] = Counter()
        self.commands: Counter[str] = Counter()
        self.bytes_per_second = math.inf
        self._upstream = upstream.socket if isinstance(upstream, Server) else upstream
        self._credentials = upstream.credentials if isinstance(upstream, Server) else ""
        self._faults: list[_Fault] = []
        self._connections: set[_Connection] = set()
        self._lock = threading.Lock()
        # Bound and never listening: it keeps the port ours while connections are refused.
        self._reservation = _bound_socket()
        self.port: int = self._reservation.getsockname()[1]
        self._listener: _Listener | None = None

    def __enter__(self) -> Self:
        self.accept()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The URL that clients connect to; the same for the proxy's whole life."""
        return f"redis://{self._credentials}127.0.0.1:{self.port}"

    def drop_before(self, pattern: bytes, *, times: int = 1) -> None:
        """Lose the request: cut the connection when it matches, before the server has seen it."""
        self._add(_Fault("drop_before", re.compile(pattern, re.DOTALL), times))

    def drop_reply(self, pattern: bytes, *, times: int = 1) -> None:
        """Lose the reply: cut the connection once the server has carried out a matching request.

        What follows it in the same pipeline may have been carried out too.
        """
        self._add(_Fault("drop_reply", re.compile(pattern, re.DOTALL), times))

    def delay_replies(
        self, seconds: float, *, pattern: bytes = b"", times: int = 1_000_000
    ) -> None:
        """Hold back the replies to matching requests, by default to all, until `heal`.

        Each comes *seconds* after its request, as from a server that is far away: what is sent in
        one go is answered in one go.
        """
        self._add(_Fault("delay", re.compile(pattern, re.DOTALL), times, seconds))

    def throttle(self, bytes_per_second: float) -> None:
        """Let replies through no faster than this on each connection, until `heal`."""
        self.bytes_per_second = bytes_per_second

    def refuse(self) -> None:
        """Cut all connections and refuse new ones, as a server that is down does."""
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()
        self.cut()

    def accept(self) -> None:
        """Take connections, on the same port, at first and after `refuse`."""
        if self._listener is None:
            self._listener = _Listener(self)

    def cut(self) -> None:
        """Cut the connections there are; new ones are welcome."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.cut()
        wait_until(
            lambda: self._connections.isdisjoint(connections),
            message="the proxy's connections have ended",
        )

    def heal(self) -> None:
        """Forget every fault that has not struck yet, and serve all connections at full speed."""
        with self._lock:
            self._faults.clear()
        self.bytes_per_second = math.inf
        self.accept()

    def close(self) -> None:
        """Cut everything and wait for the proxy's threads; may be called again."""
        self.refuse()
        self._reservation.close()

    def serve(self, client: socket.socket) -> None:
        """Pump one connection until either side ends; its thread is the listener's."""
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            server = _connect(self._upstream)
        except OSError as error:
            _logger.debug("The upstream server refused: %r.", error)
            return
        with server:
            connection = _Connection(self, client, server)
            with self._lock:
                if self._listener is None:  # told to refuse since this one was accepted
                    return
                self.counts["connections"] += 1
                self._connections.add(connection)
            try:
                connection.run()
            finally:
                with self._lock:
                    self._connections.discard(connection)

    def fault_for(self, request: bytes) -> _Fault | None:
        """The fault that strikes *request*, now used up by one; and count the request."""
        words = arguments(request)
        text = b" ".join(words)
        with self._lock:
            self.counts["requests"] += 1
            self.commands[words[0].decode(errors="replace").upper()] += 1
            for fault in self._faults:
                if fault.times > 0 and fault.pattern.search(text):
                    fault.times -= 1
                    self.counts[fault.kind] += 1
                    return fault
        return None

    def _add(self, fault: _Fault) -> None:
        with self._lock:
            self._faults.append(fault)


@dataclass(eq=False)
class _Connection:
    """Both directions of one connection: this thread pumps requests, a second one the replies."""

    proxy: FaultyProxy
    client: socket.socket
    server: socket.socket
    #: The fault of each request that was passed on, and when that was.
    _awaited: deque[tuple[_Fault | None, float]] = field(default_factory=deque)
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        replies = threading.Thread(target=self._pump, args=(self._pump_replies,), daemon=True)
        replies.start()
        self._pump(self._pump_requests)
        replies.join()

    def cut(self) -> None:
        self._ended.set()
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):  # the other side may have ended it already
                end.shutdown(socket.SHUT_RDWR)

    def _pump(self, direction: Callable[[], None]) -> None:
        try:
            direction()
        except OSError as error:
            _logger.debug("The connection was cut: %r.", error)
        finally:
            self.cut()

    def _pump_requests(self) -> None:
        with self.client.makefile("rb") as stream:
            while request := read_frame(stream):
                fault = self.proxy.fault_for(request)
                if fault is not None and fault.kind == "drop_before":
                    return
                self._awaited.append((fault, time.monotonic()))
                self.server.sendall(request)

    def _pump_replies(self) -> None:
        with self.server.makefile("rb") as stream:
            while reply := read_frame(stream):
                is_push = reply.startswith(b">")  # belongs to no request
                fault, since = (None, 0.0) if is_push else self._awaited.popleft()
                if fault is not None and fault.kind == "drop_reply":
                    return
                if fault is not None and self._ended.wait(_seconds_left(fault, since)):
                    return
                if not self._send_slowly(reply):
                    return

    def _send_slowly(self, reply: bytes) -> bool:
        """Send *reply* as fast as is allowed; returns whether the connection still stands."""
        left = memoryview(reply)
        while left:
            speed = self.proxy.bytes_per_second
            count = len(left) if speed == math.inf else math.ceil(speed * _PIECE_SECONDS)
            self.client.sendall(left[:count])
            left = left[count:]
            if speed < math.inf and self._ended.wait(_PIECE_SECONDS):
                return False
        return True


class _Listener(socketserver.ThreadingTCPServer):
    """Accepts connections for a proxy, in a thread of its own, until `stop`."""

    allow_reuse_port = True
    daemon_threads = True

    def __init__(self, proxy: FaultyProxy) -> None:
        self._proxy = proxy
        super().__init__(("127.0.0.1", proxy.port), socketserver.BaseRequestHandler)
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_POLL_SECONDS,), name="faulty-proxy", daemon=True
        )
        self._thread.start()

    def finish_request(self, request: Any, client_address: Any) -> None:
        self._proxy.serve(request)

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


def _seconds_left(fault: _Fault, since: float) -> float:
    return max(since + fault.seconds - time.monotonic(), 0.0)


def _bound_socket() -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", 0))
    return bound


def _connect(address: str | tuple[str, int]) -> socket.socket:
    if isinstance(address, tuple):
        return socket.create_connection(address, timeout=None)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection
