"""The options of `Idempotency`, checked before anything is sent (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from ...errors import InvalidIdempotency

#: Longer than any redelivery: a retry comes after seven days at the latest, and dead letters, which
#: can be sent again, are kept for as long.
DEFAULT_TTL_MS = 8 * 86_400_000
DEFAULT_LEASE_MS = 15_000
DEFAULT_PREFIX = "idempotency"

_SHORTEST_TTL_MS = 1_000
_LONGEST_TTL_MS = 100 * 366 * 86_400_000
_LONGEST_LEASE_MS = 3_600_000
_PREFIX = re.compile(r"[^\s{}:\x00-\x1f\ud800-\udfff]{1,64}\Z")

Choice = TypeVar("Choice", bound=StrEnum)


class OnDuplicate(StrEnum):
    """What becomes of a message whose key is done."""

    SKIP = "skip"
    REPLAY = "replay"
    RAISE = "raise"


class OnBusy(StrEnum):
    """What becomes of a message whose key is running."""

    DEFER = "defer"
    SKIP = "skip"
    WAIT = "wait"


class OnUnavailable(StrEnum):
    """What becomes of a message when too few lock servers answer."""

    RUN = "run"
    DEFER = "defer"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class IdempotencyOptions:
    """What an `Idempotency` was asked to be; all durations in milliseconds."""

    ttl_ms: int
    lease_ms: int
    on_duplicate: OnDuplicate
    on_busy: OnBusy
    on_unavailable: OnUnavailable
    key_prefix: str

    @classmethod
    def of(
        cls,
        *,
        ttl: object,
        lease: object,
        on_duplicate: object,
        on_busy: object,
        on_unavailable: object,
        key_prefix: object,
    ) -> IdempotencyOptions:
        """Check the middleware's options.

        Raises:
            InvalidIdempotency: Naming the option, its value and what is allowed.
        """
        lease_ms = _milliseconds("lease", lease, 1, _LONGEST_LEASE_MS)
        return cls(
            ttl_ms=checked_ttl(ttl, name="ttl", lease_ms=lease_ms),
            lease_ms=lease_ms,
            on_duplicate=_choice("on_duplicate", on_duplicate, OnDuplicate),
            on_busy=_choice("on_busy", on_busy, OnBusy),
            on_unavailable=_choice("on_unavailable", on_unavailable, OnUnavailable),
            key_prefix=checked_prefix(key_prefix),
        )


def checked_prefix(key_prefix: object) -> str:
    """Return *key_prefix* if it can be part of a server's keys.

    Raises:
        InvalidIdempotency: Naming its value and what is allowed.
    """
    if isinstance(key_prefix, str) and _PREFIX.match(key_prefix):
        return key_prefix
    allowed = "1 to 64 characters, no spaces, no braces and no colons"
    raise InvalidIdempotency.of("key_prefix", key_prefix, allowed)


def checked_ttl(ttl: object, *, name: str, lease_ms: int) -> int:
    """Return *ttl* if a record may be kept for so many milliseconds.

    A record that expires while a worker may still be at work, or before a message whose worker
    died comes again, would suppress nothing: it has to outlive two leases.

    Raises:
        InvalidIdempotency: Naming the option, its value and what is allowed.
    """
    return _milliseconds(name, ttl, max(_SHORTEST_TTL_MS, 2 * lease_ms), _LONGEST_TTL_MS)


def _milliseconds(name: str, value: object, least: int, most: int) -> int:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not least <= value <= most:  # type: ignore[operator]
        allowed = f"a whole number of milliseconds from {least} to {most}"
        raise InvalidIdempotency.of(name, value, allowed)
    return value  # type: ignore[return-value]


def _choice(name: str, value: object, choices: type[Choice]) -> Choice:
    if isinstance(value, str) and value in list(choices):
        return choices(value)
    raise InvalidIdempotency.of(name, value, f"one of {', '.join(choices)}")
