"""Keys of which each is given to one owner, for a time; what is kept of a key is its digest.

A hash of digests, and not a sorted set: it is a sixth to a quarter smaller, and a field has room
for its owner. Without the owner, a call that is made again because its reply was lost, or because
its process died, could not tell its own claims from another's.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

import redis
from dramatiq.errors import ConnectionClosed, ConnectionFailed
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from ..errors import InvalidOption
from ..keys import claims_keys
from ..options import LONGEST_DELAY_MS
from .place import CHUNK, Place
from .scripts import ClaimScripts

if TYPE_CHECKING:
    from ..broker import StreamsBroker

_DIGEST_BYTES = 16
_OWNER_BYTES = 6

#: Repeating a claim changes nothing, so a lost reply is made up for at once.
_again = retry(
    retry=retry_if_exception_type((ConnectionClosed, ConnectionFailed)),
    wait=wait_random_exponential(multiplier=0.05, max=0.5),
    stop=stop_after_attempt(3),
    reraise=True,
)


class Claims:
    """A set of keys on the server, of which each is claimed by one owner at a time.

    Args:
        server: A broker, for its server and its namespace; or a `redis.Redis`.
        name: Two sets with the same name in one namespace are the same set.
        ttl: Milliseconds after which a key may be claimed anew.
        namespace: Begins the set's keys; default `dramatiq-streams`. Only beside a client.

    Raises:
        InvalidOption: An option, its value and what is allowed.
    """

    def __init__(
        self,
        server: StreamsBroker | redis.Redis,
        name: str,
        *,
        ttl: int,
        namespace: str | None = None,
    ) -> None:
        self._place = Place(server, name, namespace=namespace)
        self._keys = claims_keys(self._place.namespace, name)
        self._ttl = _checked_ttl(ttl)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self, keys: Iterable[str | bytes], *, owner: str | None = None) -> list[bool]:
        """Claim *keys*; each is given to one caller, however many ask at the same time.

        A thousand keys are one step on the server; more are several steps. A lost reply is asked
        for again.

        Args:
            owner: For whom; whoever has the same name gets the same keys again, as a message that
                is run again after a crash has to. Default: this call alone.

        Returns:
            For each key, in order, whether it is the caller's: nobody had it, or *owner* has it
            already. Of a key that comes twice in *keys*, the first one counts.

        Raises:
            ConnectionFailed: The server cannot be reached; keys before the failure are claimed.
            ConnectionClosed: The same, and some may be claimed. With the same *owner* it can be
                repeated; without one, those keys are nobody's until their time is over.
        """
        token = secrets.token_bytes(_OWNER_BYTES) if owner is None else _owner_digest(owner)
        asked = _digests(keys)
        won = {
            digest
            for chunk in _chunks(list(dict.fromkeys(asked)))
            for digest, answer in zip(chunk, self._take(token, chunk), strict=True)
            if answer == ord("1")
        }
        claimed = []
        for digest in asked:
            claimed.append(digest in won)
            won.discard(digest)
        return claimed

    def release(self, keys: Iterable[str | bytes], *, owner: str | None = None) -> int:
        """Give *keys* up, so that they can be claimed at once.

        Args:
            owner: Only what was claimed under this name; default: whoever has them.

        Returns:
            How many of them were claimed.

        Raises:
            ConnectionClosed: Perhaps they are released; it can be repeated.
        """
        token = b"" if owner is None else _owner_digest(owner)
        return sum(
            self._scripts.claims_release(
                claims=self._keys.claims, owner=token, digests=b"".join(chunk)
            )
            for chunk in _chunks(_digests(keys))
        )

    def count(self) -> int:
        """How many keys are kept: those claimed, and those expired that were not pruned yet."""
        kept: int = self._place.executor.execute("HLEN", self._keys.claims)
        return kept

    def prune(self) -> int:
        """Remove all that has expired, a thousand at a time; returns how many that were.

        Claiming does this bit by bit: it never has to be called.
        """
        place, removed = "0", 0
        while True:
            reply = self._scripts.claims_prune(claims=self._keys.claims, place=place, limit=CHUNK)
            place, removed = reply[0].decode(), removed + reply[1]
            if place == "0":
                return int(removed)

    def clear(self) -> None:
        """Forget all claims."""
        self._place.executor.execute("UNLINK", self._keys.claims, self._keys.cursor)

    def close(self) -> None:
        """Close this process's connections; a later call opens them anew."""
        self._place.close()

    @property
    def _scripts(self) -> ClaimScripts:
        return ClaimScripts(self._place.executor)

    @_again
    def _take(self, owner: bytes, digests: Sequence[bytes]) -> bytes:
        return self._scripts.claims_take(
            claims=self._keys.claims,
            cursor=self._keys.cursor,
            owner=owner,
            ttl=self._ttl,
            digests=b"".join(digests),
        )


def _digests(keys: Iterable[str | bytes]) -> list[bytes]:
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InvalidOption.of("keys", keys, "an iterable of strings or bytes")
    return [_digest(key) for key in keys]


def _digest(key: object) -> bytes:
    if not isinstance(key, str | bytes):
        raise InvalidOption(f"Key {key!r} cannot be claimed: keys are strings or bytes.")
    data = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _owner_digest(owner: object) -> bytes:
    if not isinstance(owner, str) or not owner:
        raise InvalidOption.of("owner", owner, "a string, such as a message's id")
    data = owner.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=_OWNER_BYTES).digest()


def _chunks(digests: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for first in range(0, len(digests), CHUNK):
        yield digests[first : first + CHUNK]


def _checked_ttl(ttl: object) -> int:
    is_number = isinstance(ttl, int | float) and not isinstance(ttl, bool)
    if not is_number or not 0 < ttl <= LONGEST_DELAY_MS:  # type: ignore[operator]
        raise InvalidOption.of("ttl", ttl, "milliseconds, above 0 and at most 10**13")
    return math.ceil(ttl)  # type: ignore[call-overload, no-any-return]
