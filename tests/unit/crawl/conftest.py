"""A server that says exactly what a test tells it to, byte by byte."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest


class RawServer:
    """Accepts connections on loopback, reads one request of each, and runs a script on it.

    A script gets the connection and the server; it sends what it likes and may wait for
    `released`, which is set when the test ends. Afterwards the connection is closed.
    """

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.released = threading.Event()
        # What makes of a connection the one that is spoken over: TLS, for one.
        self.wrap: Callable[[socket.socket], socket.socket] = lambda connection: connection
        self._script: Callable[[socket.socket], None] = lambda connection: None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def url(self) -> str:
        """Where it listens, with a path."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/"

    def answer(self, data: bytes) -> str:
        """Answer every request with *data* and hang up; returns the URL."""
        return self.run(lambda connection: connection.sendall(data))

    def run(self, script: Callable[[socket.socket], None]) -> str:
        """Answer every request by calling *script*; returns the URL."""
        self._script = script
        return self.url

    def drip(self, head: bytes, drop: bytes) -> str:
        """Answer with *head*, then with *drop* every 20 ms until the test ends."""

        def script(connection: socket.socket) -> None:
            connection.sendall(head)
            while not self.released.wait(0.02):
                connection.sendall(drop)

        return self.run(script)

    def stall(self, head: bytes) -> str:
        """Answer with *head*, then with nothing until the test ends."""

        def script(connection: socket.socket) -> None:
            connection.sendall(head)
            self.released.wait()

        return self.run(script)

    def close(self) -> None:
        """End every script and close the port."""
        self.released.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):  # it is over already
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.released.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            self._start(self._serve, connection)

    def _serve(self, plain: socket.socket) -> None:
        plain.settimeout(30)
        # Hanging up is what most of these tests are about.
        with plain, suppress(OSError), self.wrap(plain) as connection:
            self._connections.append(connection)
            self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            received = connection.recv(65536)
            if not received:
                return
            request += received
        self.requests.append(request)
        self._script(connection)
        # Closing with unread or unsent bytes would reset the connection.
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            continue


@pytest.fixture
def raw_server() -> Iterator[RawServer]:
    """See `RawServer`."""
    server = RawServer()
    yield server
    server.close()
