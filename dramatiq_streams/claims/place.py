"""Where a set of claims is: its server, and what it is called there."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import redis

from ..connections import Connections
from ..errors import InvalidOption
from ..executor import Executor
from ..options import DEFAULT_NAMESPACE, checked_namespace

if TYPE_CHECKING:
    from ..broker import StreamsBroker

#: The most keys of one script, so that the server is never kept from others for long.
CHUNK = 1000

_NAME = re.compile(r"[^\s{}\x00-\x1f\ud800-\udfff]{1,255}\Z")


class Place:
    """The server of a broker or a client, and a name there; connects when it is first used.

    Every thread has a connection of its own, and so has a process that was forked.

    Args:
        server: Its server is used, not its connections; a broker's namespace too.
        namespace: Begins the set's keys; default `dramatiq-streams`. Only beside a client.

    Raises:
        InvalidOption: An option, its value and what is allowed.
    """

    def __init__(
        self, server: StreamsBroker | redis.Redis, name: str, *, namespace: str | None
    ) -> None:
        if not isinstance(name, str) or not _NAME.match(name):
            raise InvalidOption.of("name", name, "1 to 255 characters, no spaces and no braces")
        self.name = name
        self._server = server
        self._executors: dict[int, Executor] = {}
        if isinstance(server, redis.Redis):
            self.namespace = checked_namespace(namespace or DEFAULT_NAMESPACE)
            self._connections: Connections | None = _connections(server)
            return
        if namespace is not None:
            raise InvalidOption(f"namespace={namespace!r} is not possible: a broker has its own.")
        if not isinstance(getattr(server, "client", None), redis.Redis):
            raise InvalidOption.of("server", server, "a StreamsBroker or a redis.Redis")
        self.namespace = server.namespace
        self._connections = None

    @property
    def executor(self) -> Executor:
        """This process's connections."""
        # No lock: a fork could copy it while it is held. `setdefault` is atomic.
        found = self._executors.get(os.getpid())
        if found is None:
            found = self._executors.setdefault(os.getpid(), self._connected())
        return found

    def close(self) -> None:
        """Close this process's connections; the next command opens one."""
        executor = self._executors.pop(os.getpid(), None)
        if executor is not None:
            executor.close()

    def _connected(self) -> Executor:
        server: Any = self._server
        connections = self._connections or _connections(server.client)
        return connections.shared()


def _connections(client: redis.Redis) -> Connections:
    return Connections(url=None, client=client, parameters={})
