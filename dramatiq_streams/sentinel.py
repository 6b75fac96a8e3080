"""`sentinel://` URLs, and connections that ask the sentinels where the master is.

Every new connection asks, and one that is used again asks now and then. What is connected to a
server that refuses to write is dropped as well (see `connections`).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import redis
from dramatiq.logging import get_logger
from redis.backoff import NoBackoff
from redis.connection import parse_url, to_bool
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

from . import clock

DEFAULT_SENTINEL_PORT = 26379

#: How often a process that is connected asks whether the master is still the same.
ASK_INTERVAL_MS = 1_000.0
ASK_INTERVAL_MS_WITHOUT_ANSWER = 10_000.0

#: Scheme -> whether connections are encrypted, to the sentinels too.
SCHEMES: Mapping[str, bool] = {"sentinel": False, "sentinels": True}

_ALLOWED = (
    "it must be sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]/SERVICE[/DB], or sentinels://"
    " with TLS; options of the connections to the sentinels themselves are query parameters"
    " that begin with sentinel_"
)
_PREFIX = "sentinel_"
_SENTINEL_DEFAULTS: Mapping[str, Any] = {
    "socket_timeout": 1.0,
    "socket_connect_timeout": 1.0,
    "protocol": 2,
    "retry": Retry(NoBackoff(), 0),
}
# As Sentinel itself has it.
_SERVICE = re.compile(r"[A-Za-z0-9._-]+\Z")

Address = tuple[str, int]


class Masters:
    """Finds the master of a service; shared by connections, threads and forks, without a lock."""

    def __init__(
        self, service: str, sentinels: Sequence[Address], options: Mapping[str, Any]
    ) -> None:
        self.service = service
        self.sentinels = sentinels
        self.options = options
        # One each: a `Sentinel` of several reorders them, which is no work for several threads.
        self._asked = [
            Sentinel([address], sentinel_kwargs=dict(options))  # type: ignore[no-untyped-call]
            for address in sentinels
        ]
        self._best = 0
        self._last: Address | None = None
        self._ask_again_ms = 0.0

    def find(self) -> Address:
        """Ask one sentinel after the other, each for a second at most by default.

        Raises:
            redis.ConnectionError: None of them is there and knows a master that is up.
        """
        # Not the error: with its traceback it would keep itself and a connection alive, in a cycle.
        reason = ""
        for index in sorted(range(len(self._asked)), key=lambda index: index != self._best):
            try:
                found = self._ask(self._asked[index])
            except redis.RedisError as error:
                reason = reason or str(error)
            else:
                self._best, self._ask_again_ms = index, clock.monotonic_ms() + ASK_INTERVAL_MS
                self._note(found)
                return found
        places = ", ".join(f"{host}:{port}" for host, port in self.sentinels)
        raise redis.ConnectionError(
            f"No sentinel ({places}) knows a master of {self.service!r} that is up: {reason}"
        )

    def has_moved(self, address: Address) -> bool:
        """Whether the master is another one than *address*, as far as a sentinel can be asked.

        It asks once per second. A master that hands over in order goes on taking messages for ten
        seconds, all of which are lost.
        """
        if clock.monotonic_ms() >= self._ask_again_ms:
            # First: meanwhile other threads go on.
            self._ask_again_ms = clock.monotonic_ms() + ASK_INTERVAL_MS_WITHOUT_ANSWER
            try:
                self.find()
            except redis.ConnectionError as error:
                get_logger(__name__).debug("The master stays what it was: %s", error)
        return self._last != address

    def _ask(self, sentinel: Sentinel) -> Address:
        """What one sentinel says; `discover_master` of redis-py hides why one says nothing."""
        (client,) = sentinel.sentinels
        known: Any = client.sentinel_masters()
        state = known.get(self.service)
        if not state or not sentinel.check_master_state(state, self.service):  # type: ignore[no-untyped-call]
            raise MasterNotFoundError("it is unknown there, or down")
        return state["ip"], state["port"]

    def _note(self, master: Address) -> None:
        last, self._last = self._last, master
        if last not in (None, master):
            get_logger(__name__).warning(
                "The master of %r was %s:%d and is %s:%d now.", self.service, *last, *master
            )


class SentinelConnection(redis.Connection):
    """A connection to the master: the one there is when it connects, or is used again."""

    def __init__(self, *, masters: Masters, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._masters = masters

    def connect(self) -> None:
        """Connect; a pool calls it before each use, and it leaves what is the master no more."""
        if self._sock is not None and self._masters.has_moved((self.host, self.port)):
            self.disconnect()
        super().connect()  # type: ignore[no-untyped-call]

    def _connect(self) -> socket.socket:
        self.host, self.port = self._masters.find()
        return super()._connect()  # type: ignore[no-any-return,no-untyped-call]


class SentinelSSLConnection(SentinelConnection, redis.SSLConnection):
    """The same, encrypted; the certificate has to be for the address that the sentinels tell."""


def sentinel_pool_parameters(url: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for a `redis.ConnectionPool` of the service that *url* names.

    Nothing is connected.

    Args:
        url: What it says wins over *parameters*.
        parameters: More options of the connections; those of TLS are used with the sentinels too.

    Raises:
        ValueError: *url* is malformed, or an option of the sentinels has an impossible value.
        TypeError: There is no such option.
    """
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    user, _, place = place.rpartition("@")
    hosts, _, path = place.partition("/")
    service, database = _service_and_database(path)
    pairs = parse_qsl(query, keep_blank_values=True)
    of_server = [pair for pair in pairs if not pair[0].startswith(_PREFIX)]
    server = {**parameters, **database, **_typed(of_server), **_credentials(user)}
    own = [(name.removeprefix(_PREFIX), v) for name, v in pairs if name.startswith(_PREFIX)]
    shared = {name: value for name, value in server.items() if name.startswith("ssl_")}
    options = {**_SENTINEL_DEFAULTS, "ssl": SCHEMES[scheme], **shared, **_typed(own)}
    options["ssl"] = to_bool(options["ssl"])  # type: ignore[no-untyped-call]
    # An unknown option fails now.
    redis.Redis(**options).close()
    return {
        **server,
        "masters": Masters(service, [_address(host) for host in hosts.split(",")], options),
        "connection_class": SentinelSSLConnection if SCHEMES[scheme] else SentinelConnection,
    }


def _service_and_database(path: str) -> tuple[str, dict[str, int]]:
    service, slash, database = path.partition("/")
    if not _SERVICE.match(service):
        raise ValueError(f"the service is {service!r}; {_ALLOWED}")
    if slash and not (database.isascii() and database.isdecimal()):
        raise ValueError(f"the database is {database!r}, which is no number; {_ALLOWED}")
    return service, {"db": int(database)} if database else {}


def _typed(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Query parameters with the types that redis-py gives them."""
    return dict(parse_url(f"redis://?{urlencode(pairs)}"))  # type: ignore[no-untyped-call]


def _credentials(user: str) -> dict[str, str]:
    name, _, password = user.partition(":")
    given = {"username": unquote(name), "password": unquote(password)}
    return {name: value for name, value in given.items() if value}


def _address(text: str) -> Address:
    try:
        parts = urlsplit(f"//{text}")
        port = DEFAULT_SENTINEL_PORT if parts.port is None else parts.port
    except ValueError as error:
        raise ValueError(f"the sentinel {text!r} is not possible ({error}); {_ALLOWED}") from error
    if not parts.hostname or not port:
        raise ValueError(f"the sentinel {text!r} is not possible; {_ALLOWED}")
    return parts.hostname, port
