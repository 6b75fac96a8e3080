"""Very large sets of keys in a Bloom filter: some bits for a key, and now and then a wrong answer.

pottery's Bloom filter says how many bits there are and which are a key's; they are the bits of a
`pottery.BloomFilter` with the same options. Here they are set and read in one step, where pottery
needs two: between these, another process could be told as well that a key is new.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Self

import redis
from pottery.annotations import JSONTypes
from pottery.bloom import BloomFilterABC

from ..errors import InvalidOption
from ..keys import bloom_key
from .place import Place
from .scripts import ClaimScripts

if TYPE_CHECKING:
    from ..broker import StreamsBroker

#: The most bits of one call, so that the server is never kept from others for long.
_MOST_BITS = 5_000

#: Above it a filter has a single bit for a key, or less, and soon none that is not set.
_LARGEST_ERROR_RATE = 0.5

#: pottery's hashes have 32 bits, so more bits than that would never be used.
_MOST_FILTER_BITS = 2**32


class BloomClaims:
    """A set of keys, of which each is claimed once and for ever; some are refused wrongly.

    Nothing is kept of who claimed a key: nothing can be released or expires, and a claim whose
    reply was lost is not told from another's.

    Args:
        server: A broker, for its server and its namespace; or a `redis.Redis`.
        name: Two sets with the same name in one namespace are the same set.
        capacity: For how many keys it is made; the same for all who use it.
        error_rate: How many keys that are new are refused all the same once it is full: 0.001 for
            one in a thousand, 0.5 at most. The same for all who use it.
        namespace: Begins the set's keys; default `dramatiq-streams`. Only beside a client.

    Raises:
        InvalidOption: An option, its value and what is allowed.
    """

    def __init__(
        self,
        server: StreamsBroker | redis.Redis,
        name: str,
        *,
        capacity: int,
        error_rate: float = 0.001,
        namespace: str | None = None,
    ) -> None:
        if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
            raise InvalidOption.of("capacity", capacity, "a whole number of keys, at least 1")
        if not isinstance(error_rate, float) or not 0 < error_rate <= _LARGEST_ERROR_RATE:
            allowed = f"above 0 and at most {_LARGEST_ERROR_RATE}, as 0.001"
            raise InvalidOption.of("error_rate", error_rate, allowed)
        self._place = Place(server, name, namespace=namespace)
        self._key = bloom_key(self._place.namespace, name)
        self._filter = _Filter(num_elements=capacity, false_positives=error_rate)
        self._filter.bits_set = self._bits_set
        if self._filter.size() > _MOST_FILTER_BITS:
            text = f"would need {self._filter.size():,} bits, and 2**32 are the most"
            raise InvalidOption(f"capacity={capacity} with error_rate={error_rate} {text}.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def size_bytes(self) -> int:
        """What it takes on the server, from the first key on."""
        return -(-self._filter.size() // 8)

    def claim(self, keys: Iterable[str]) -> list[bool]:
        """Claim *keys*; each is given to one caller, however many ask at the same time.

        Returns:
            For each key, in order, whether it is new. Of a key that comes twice, the first is.

        Raises:
            ConnectionFailed: The server cannot be reached; keys before the failure are claimed.
            ConnectionClosed: Some may be claimed as well; asked again, they are said to be old. To
                lose none, take them all for new.
        """
        offsets = self._filter.offsets_of(keys)
        step = max(_MOST_BITS // self._filter.num_hashes(), 1)
        claimed: list[bool] = []
        for first in range(0, len(offsets), step):
            claimed += self._set_bits(offsets[first : first + step])
        return claimed

    def count(self) -> int:
        """About how many keys were claimed, by the number of bits that are set."""
        return len(self._filter)

    def clear(self) -> None:
        """Forget all claims."""
        self._place.executor.execute("UNLINK", self._key)

    def close(self) -> None:
        """Close this process's connections; a later call opens them anew."""
        self._place.close()

    def _bits_set(self) -> int:
        return int(self._place.executor.execute("BITCOUNT", self._key))

    def _set_bits(self, offsets: Sequence[Sequence[int]]) -> list[bool]:
        """Set the bits of some keys in one step, which tells whether any was not set before."""
        numbers = [offset for of_key in offsets for offset in of_key]
        answers = ClaimScripts(self._place.executor).claims_set_bits(
            bits=self._key,
            hashes=self._filter.num_hashes(),
            offsets=struct.pack(f">{len(numbers)}I", *numbers),
        )
        return [answer == ord("1") for answer in answers]


class _Filter(BloomFilterABC):
    """pottery's arithmetic, over bits that are sent in `BloomClaims`."""

    #: Counts the bits that are set, on the server.
    bits_set: Callable[[], int]

    def offsets_of(self, keys: Iterable[str]) -> list[list[int]]:
        """The bits of each key."""
        if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
            raise InvalidOption.of("keys", keys, "an iterable of strings")
        return [list(self._bit_offsets(key)) for key in keys]

    def update(self, *iterables: Iterable[JSONTypes]) -> None:
        """Nothing: pottery calls it with no keys when it is made."""

    def contains_many(self, *values: JSONTypes) -> Generator[bool, None, None]:
        """Not asked here: an answer would be old when it comes."""
        raise NotImplementedError

    def _bit_offsets(self, value: JSONTypes) -> Generator[int, None, None]:
        if not isinstance(value, str):
            raise InvalidOption(f"Key {value!r} cannot be claimed: keys are strings.")
        return super()._bit_offsets(json.dumps(value))

    def _num_bits_set(self) -> int:
        # Nobody can tell how many keys have set all of them: as many at least as all but one.
        return min(self.bits_set(), self.size() - 1)
