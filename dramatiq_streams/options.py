"""The broker's and a message's options, checked before anything is sent (pure)."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from dramatiq.common import q_name

from .errors import InvalidOption
from .lanes import DEFAULT_LANES, Lanes

DEFAULT_NAMESPACE = "dramatiq-streams"
DEFAULT_LEASE_MS = 60_000
DEFAULT_DISCONNECT_GRACE_MS = 10_000
DEFAULT_MAX_DELIVERIES = 5
DEFAULT_DEAD_MESSAGE_TTL_MS = 7 * 86_400_000
DEFAULT_MAX_DEAD_MESSAGES = 1_000_000

#: Long enough for the restart of a server, short enough for whoever waits for a web page.
DEFAULT_ENQUEUE_TIMEOUT_MS = 5_000
DEFAULT_WAIT_TIMEOUT_MS = 1_000
#: With two messages fetched ahead for each of eight threads, 256 MiB of a worker's memory.
DEFAULT_MAX_MESSAGE_BYTES = 16 * 1024**2
#: What Redis takes at most, unless it is configured otherwise (`proto-max-bulk-len`).
LARGEST_MESSAGE_BYTES = 512 * 1024**2
DEFAULT_SPOOL_MAX_MESSAGES = 100_000
DEFAULT_SPOOL_MAX_BYTES = 1024**3

#: Far beyond any eta, and still exact as a score and in Lua's number format.
LONGEST_DELAY_MS = 10**13

#: A consumer notices only in between that it is to stop.
LONGEST_TIMEOUT_MS = 86_400_000

_MINUTE_MS = 60_000
_YEAR_MS = 366 * 86_400_000
_DEAD_TTLS_MS = (1_000, 100 * _YEAR_MS)
# No surrogates: not UTF-8.
_NAMESPACE = re.compile(r"[^\s{}\x00-\x1f\ud800-\udfff]{1,128}\Z")
# No colon: with it, another namespace's queue could have the same keys.
_QUEUE = re.compile(r"[^\s{}:\x00-\x1f\ud800-\udfff]{1,255}\Z")


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """How messages are sent; all durations in milliseconds."""

    enqueue_timeout_ms: int
    wait_replicas: int
    wait_timeout_ms: int
    max_message_bytes: int
    spool: str | None
    spool_max_messages: int
    spool_max_bytes: int

    @classmethod
    def of(
        cls,
        *,
        enqueue_timeout: object,
        wait_replicas: object,
        wait_timeout: object,
        max_message_bytes: object,
        spool: object,
        spool_max_messages: object,
        spool_max_bytes: object,
    ) -> ProducerOptions:
        """Check the constructor's options.

        Raises:
            InvalidOption: Naming the option, its value and what is allowed.
        """
        ms, largest = "milliseconds", LARGEST_MESSAGE_BYTES
        return cls(
            enqueue_timeout_ms=_whole("enqueue_timeout", enqueue_timeout, 0, 10 * _MINUTE_MS, ms),
            wait_replicas=_whole("wait_replicas", wait_replicas, 0, 100, "replicas"),
            wait_timeout_ms=_whole("wait_timeout", wait_timeout, 1, _MINUTE_MS, ms),
            max_message_bytes=_whole(
                "max_message_bytes", max_message_bytes, 1_024, largest, "bytes"
            ),
            spool=None if spool is None else _file("spool", spool),
            spool_max_messages=_whole(
                "spool_max_messages", spool_max_messages, 1, 100_000_000, "messages"
            ),
            spool_max_bytes=_whole("spool_max_bytes", spool_max_bytes, 1_024, 1024**4, "bytes"),
        )


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """What a `StreamsBroker` was asked to be; all durations in milliseconds."""

    namespace: str
    lanes: Lanes
    lease_ms: int
    disconnect_grace_ms: int
    max_deliveries: int
    dead_message_ttl_ms: int
    max_dead_messages: int

    @classmethod
    def of(
        cls,
        *,
        namespace: object,
        lanes: Sequence[str] | Mapping[str, float] | None,
        lease: object,
        disconnect_grace: object,
        max_deliveries: object,
        dead_message_ttl: object,
        max_dead_messages: object,
    ) -> BrokerOptions:
        """Check the constructor's options.

        Raises:
            InvalidOption: Naming the option, its value and what is allowed.
        """
        ms = "milliseconds"
        return cls(
            namespace=checked_namespace(namespace),
            lanes=Lanes.of(DEFAULT_LANES if lanes is None else lanes),
            lease_ms=_whole("lease", lease, 1_000, 60 * _MINUTE_MS, "milliseconds"),
            disconnect_grace_ms=_whole(
                "disconnect_grace", disconnect_grace, 1_000, 60 * _MINUTE_MS, "milliseconds"
            ),
            max_deliveries=_whole("max_deliveries", max_deliveries, 1, 1_000_000, "deliveries"),
            dead_message_ttl_ms=_whole("dead_message_ttl", dead_message_ttl, *_DEAD_TTLS_MS, ms),
            max_dead_messages=_whole(
                "max_dead_messages", max_dead_messages, 1, 100_000_000, "messages"
            ),
        )


def is_dead_message_ttl(value: object) -> TypeGuard[int]:
    """Whether *value* is a time that dead letters may be kept for, in milliseconds."""
    return _is_whole(value, *_DEAD_TTLS_MS)


def checked_queue_name(name: object) -> str:
    """Return *name* if a queue may be called so.

    Raises:
        InvalidOption: It is not a plain name, or ends in a suffix that dramatiq keeps for itself.
    """
    if not isinstance(name, str) or not _QUEUE.match(name):
        raise InvalidOption.of(
            "queue_name", name, "1 to 255 characters, no spaces, no braces and no colons"
        )
    if q_name(name) != name:
        raise InvalidOption.of("queue_name", name, "a name that does not end in .DQ or .XQ")
    return name


def checked_delay(delay: object) -> int:
    """Return *delay* in whole milliseconds.

    Raises:
        InvalidOption: It is not a number of milliseconds from 0 to 10**13 (some 300 years).
    """
    is_number = isinstance(delay, int | float) and not isinstance(delay, bool)
    if not is_number or not 0 <= delay <= LONGEST_DELAY_MS:  # type: ignore[operator]
        raise InvalidOption.of("delay", delay, "milliseconds, from 0 to 10**13")
    return math.ceil(delay)  # type: ignore[call-overload, no-any-return]


def delay_until(eta: object, *, now_ms: int) -> int | None:
    """The delay that the message option `eta` (epoch milliseconds) asks for, None if it is None.

    Raises:
        InvalidOption: It is no instant.
    """
    if eta is None:
        return None
    # Not `math.isfinite`: it fails on integers that no float can hold.
    if isinstance(eta, bool) or not isinstance(eta, int | float) or not abs(eta) < math.inf:
        raise InvalidOption.of("eta", eta, "milliseconds since 1970, or None")
    return min(max(math.ceil(eta) - now_ms, 0), LONGEST_DELAY_MS)


def checked_timeout(timeout: object) -> int:
    """Return *timeout* in milliseconds.

    Raises:
        InvalidOption: It is not a positive number, or longer than a day.
    """
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 0 < timeout <= LONGEST_TIMEOUT_MS:  # type: ignore[operator]
        allowed = f"a number of milliseconds above 0, at most {LONGEST_TIMEOUT_MS}"
        raise InvalidOption.of("timeout", timeout, allowed)
    return math.ceil(timeout)  # type: ignore[call-overload, no-any-return]


def checked_prefetch(prefetch: object) -> int:
    """Return *prefetch*.

    Raises:
        InvalidOption: It is not a positive whole number.
    """
    return _whole("prefetch", prefetch, 1, 65_535, "messages")


def checked_namespace(value: object) -> str:
    """Return *value* if a namespace may be called so.

    Raises:
        InvalidOption: It is not a plain name.
    """
    if not isinstance(value, str) or not _NAMESPACE.match(value):
        allowed = "1 to 128 characters, no spaces and no braces"
        raise InvalidOption.of("namespace", value, allowed)
    return value


def _file(name: str, value: object) -> str:
    """The absolute path of a file that may be there, in a directory that must."""
    text = os.fsdecode(value) if isinstance(value, str | os.PathLike) else ""
    if not text or "\0" in text:
        raise InvalidOption.of(name, value, "the path of a file")
    path = os.path.abspath(os.path.expanduser(text))
    directory = os.path.dirname(path)
    if os.path.isdir(path) or not os.path.isdir(directory):
        raise InvalidOption.of(name, value, "the path of a file in a directory that exists")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise InvalidOption.of(name, value, "in a directory that this user may write to")
    return path


def _whole(name: str, value: Any, least: int, most: int, unit: str) -> int:
    if not _is_whole(value, least, most):
        raise InvalidOption.of(name, value, f"a whole number of {unit} from {least} to {most}")
    return value


def _is_whole(value: object, least: int, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
