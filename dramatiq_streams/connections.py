"""How the server is reached: from a URL, a client or redis-py's own options.

Every reply is parsed as RESP2, so that scripts and blocking reads look alike on every server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from .errors import CommandFailed, StreamsError, UnsupportedServer
from .events import Events
from .executor import Executor, Presence
from .urls import completed, pool_of, refuse_unknown


class Connections:
    """Knows how to reach the server; opens nothing by itself."""

    def __init__(
        self,
        *,
        url: str | None,
        client: redis.Redis | None,
        parameters: Mapping[str, Any],
        events: Events | None = None,
    ) -> None:
        self.events = events or Events()
        given = pool_of(url, client, parameters)
        self._connection_class = given.connection_class
        self._parameters: dict[str, Any] = {
            **completed(given.connection_kwargs),
            "decode_responses": False,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "retry_on_timeout": False,
            "retry_on_error": [],
        }
        self._parameters.pop("maint_notifications_config", None)
        refuse_unknown(self._connection_class, self._parameters)

    @property
    def is_default_user(self) -> bool:
        """Whether the server knows us as its default user, who may usually do everything."""
        name = self._parameters.get("username") or "default"
        return name == "default" and "credential_provider" not in self._parameters

    @property
    def address(self) -> str:
        """Where the server is, for people: a path, a host and port, or a service of Sentinel's."""
        given = self._parameters
        if "path" in given:
            return str(given["path"])
        if "masters" in given:
            return f"the master of {given['masters'].service!r}"
        return f"{given.get('host', 'localhost')}:{given.get('port', 6379)}"

    def client(self) -> redis.Redis:
        """A client for the user; its pool grows with the threads that use it."""
        return redis.Redis(connection_pool=self._pool())

    def shared(self, *, blocking_ms: float = 0) -> Executor:
        """As many connections as there are threads; replies may take *blocking_ms* longer."""
        pool = self._pool(socket_timeout=self._parameters["socket_timeout"] + blocking_ms / 1000)
        return Executor(pool, events=self.events)

    def quick(self, *, timeout_ms: float) -> Executor:
        """As `shared`, with *timeout_ms* to connect, and as much for each reply."""
        seconds = timeout_ms / 1000
        pool = self._pool(socket_timeout=seconds, socket_connect_timeout=seconds)
        return Executor(pool, events=self.events)

    def dedicated(self, *, blocking_ms: float = 0) -> Executor:
        """One connection of its own, whose replies may take *blocking_ms* longer than usual."""
        timeout = self._parameters["socket_timeout"] + blocking_ms / 1000
        presence = Presence()
        pool = self._pool(socket_timeout=timeout, redis_connect_func=presence.note)
        return Executor(pool, presence, events=self.events, blocking_seconds=blocking_ms / 1000)

    def _pool(self, **parameters: Any) -> redis.ConnectionPool:
        # redis-py stops at 100 connections, and fails; the number of threads is the user's affair.
        return redis.ConnectionPool(
            connection_class=self._connection_class,
            max_connections=2**31,
            **{**self._parameters, **parameters},
        )


def check_server(executor: Executor) -> None:
    """Make sure that the server has all that the scripts use.

    Raises:
        UnsupportedServer: It does not know XAUTOCLAIM, which came with Redis 6.2.
    """
    try:
        known = executor.execute("COMMAND", "INFO", "XAUTOCLAIM")
    except CommandFailed:
        return  # An ACL may forbid COMMAND; then the first script tells.
    if known and known[0]:
        return
    try:
        information = executor.execute("INFO", "server").decode()
    except StreamsError:
        information = ""
    version = re.search(r"redis_version:(\S+)", information)
    found = f"version {version[1]}" if version else "an unknown version"
    raise UnsupportedServer(
        f"The server has no XAUTOCLAIM: it is {found}, and dramatiq_streams needs"
        " Redis 6.2 or newer, or Valkey. Upgrade the server, or name another in url=."
    )
