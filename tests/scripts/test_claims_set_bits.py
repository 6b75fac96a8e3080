import struct

import pytest

from dramatiq_streams.keys import bloom_key
from tests.scripts.shard import Shard

pytestmark = pytest.mark.usefixtures("claiming")


def set_bits(shard: Shard, namespace: str, *offsets: tuple[int, ...]) -> bytes:
    numbers = [number for of_key in offsets for number in of_key]
    return shard.scripts.claims_set_bits(
        bits=bloom_key(namespace, "links"),
        hashes=len(offsets[0]),
        offsets=struct.pack(f">{len(numbers)}I", *numbers),
    )


def test_key_is_new_if_one_of_its_bits_was_not_set(empty_shard: Shard, namespace: str) -> None:
    set_bits(empty_shard, namespace, (1, 2), (5, 6))

    assert set_bits(empty_shard, namespace, (1, 5), (2, 3), (3, 1)) == b"010"

    bits = empty_shard.client.get(bloom_key(namespace, "links"))
    assert bits == bytes([0b01110110])


def test_key_that_comes_twice_is_new_once(empty_shard: Shard, namespace: str) -> None:
    assert set_bits(empty_shard, namespace, (7, 9), (7, 9)) == b"10"


def test_largest_offset_is_taken_as_it_is(empty_shard: Shard, namespace: str) -> None:
    assert set_bits(empty_shard, namespace, (100_000_000, 0)) == b"1"

    assert empty_shard.client.getbit(bloom_key(namespace, "links"), 100_000_000) == 1
    assert empty_shard.client.bitcount(bloom_key(namespace, "links")) == 2
