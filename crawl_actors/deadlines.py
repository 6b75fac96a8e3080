"""One deadline for a whole HTTP request, from the look-up of the name to the last byte.

The timeouts of sockets, and so those of requests, count anew for each packet: a server that sends
one byte a second keeps a reader for ever. The sockets here have what is *left* of the deadline
that `Deadline.applied` set for the thread, so a slow connection, handshake, header or body ends
with it. What is sent and received is the business of `fetching`.
"""

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.util.ssl_ import create_urllib3_context

_current = threading.local()


class Deadline:
    """An instant, *after_ms* from now, by which everything must be over."""

    def __init__(self, after_ms: int) -> None:
        self._instant = time.monotonic() + after_ms / 1000

    @property
    def is_over(self) -> bool:
        """True when there is no time left."""
        return time.monotonic() >= self._instant

    def remaining(self) -> float:
        """The seconds that are left.

        Raises:
            TimeoutError: When there are none.
        """
        remaining = self._instant - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the request took longer than its deadline")
        return remaining

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Make it the deadline of every request of this thread."""
        _current.deadline = self
        try:
            yield
        finally:
            del _current.deadline


class DeadlineAdapter(HTTPAdapter):
    """Transport of requests that obey `Deadline.applied`.

    A URL is sent as it is: requests would turn the path `//a` into `/a`.
    """

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Make the pools, with connections of our own."""
        context = create_urllib3_context()
        context.sslsocket_class = _DeadlineTlsSocket
        super().init_poolmanager(*args, **options, ssl_context=context)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}

    def request_url(self, request: Any, proxies: Any) -> str:
        """The path and query of *request*, untouched."""
        url: str = request.url
        return url[url.index("/", len("https://")) :]


class _DeadlineSocket(socket.socket):
    def recv_into(self, *args: Any, **options: Any) -> int:
        self.settimeout(_remaining())
        return super().recv_into(*args, **options)

    def sendall(self, *args: Any, **options: Any) -> None:
        self.settimeout(_remaining())
        super().sendall(*args, **options)


class _DeadlineTlsSocket(ssl.SSLSocket):
    def do_handshake(self, block: bool = False) -> None:
        # The standard library takes the timeout for the whole of it, however many packets it has.
        self.settimeout(_remaining())
        super().do_handshake(block)

    def recv_into(self, *args: Any, **options: Any) -> int:
        self.settimeout(_remaining())
        return super().recv_into(*args, **options)

    def sendall(self, *args: Any, **options: Any) -> None:
        self.settimeout(_remaining())
        super().sendall(*args, **options)


class _HttpConnection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self)


class _HttpsConnection(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self)


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


def _remaining() -> float:
    deadline: Deadline = _current.deadline
    return deadline.remaining()


def _connect(connection: HTTPConnection) -> socket.socket:
    """A socket to the first address of the host that answers, within the thread's deadline."""
    host, port = connection.host.strip("[]"), connection.port or connection.default_port
    try:
        addresses = _resolve(host, port)
    except (socket.gaierror, UnicodeError) as error:
        raise NameResolutionError(host, connection, error) from error  # type: ignore[arg-type]
    except TimeoutError as error:
        raise ConnectTimeoutError(connection, f"no answer to the name {host!r} in time") from error
    for number, (family, address) in enumerate(addresses, start=1):
        try:
            return _connect_to(family, address, options=connection.socket_options or ())
        except TimeoutError as error:
            raise ConnectTimeoutError(connection, f"no connection to {host!r} in time") from error
        except OSError as error:
            if number == len(addresses):
                raise NewConnectionError(connection, str(error)) from error
    raise NewConnectionError(connection, f"{host!r} has no address")


def _connect_to(family: int, address: Any, *, options: Any) -> socket.socket:
    connected = _DeadlineSocket(family, socket.SOCK_STREAM)
    try:
        for option in options:
            connected.setsockopt(*option)
        connected.settimeout(_remaining())
        connected.connect(address)
        connected.settimeout(_remaining())
    except BaseException:
        connected.close()
        raise
    return connected


def _resolve(host: str, port: int) -> list[tuple[int, Any]]:
    """The addresses of *host*, in the system's order of preference."""
    if _is_address(host):
        return _addresses(host, port)
    # getaddrinfo cannot be interrupted. The thread ends when the resolver gives up.
    answer: Future[list[tuple[int, Any]]] = Future()
    threading.Thread(
        target=_look_up, args=(host, port, answer), name="resolver", daemon=True
    ).start()
    return answer.result(timeout=_remaining())


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _look_up(host: str, port: int, answer: Future[list[tuple[int, Any]]]) -> None:
    try:
        answer.set_result(_addresses(host, port))
    except (OSError, UnicodeError) as error:
        answer.set_exception(error)


def _addresses(host: str, port: int) -> list[tuple[int, Any]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]
