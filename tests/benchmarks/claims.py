"""What a claimed key costs: bytes on the server, milliseconds of the server and of the caller.

Run it from the root of the repository: `python -m tests.benchmarks.claims [KEYS]`, by default with
a million keys. It starts its own servers and takes some minutes. Times are for a thousand keys,
over a hundred calls: the server's processor time on average, the caller's wait as the median.
"""

import hashlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dramatiq_streams import Claims
from dramatiq_streams.claims.bloom import BloomClaims
from tests.benchmarks.asking import ask
from tests.support.binaries import find_binary
from tests.support.servers import Server

SERVERS = ("valkey9", "redis62", "redis82")
CALL = 1_000
TTL = 86_400_000
ERROR_RATES = (0.01, 0.001)

#: How many keys are timed, in a set of all of them.
_TIMED = 100_000

Store = Callable[[Any, Sequence[bytes], Sequence[bytes]], None]


def main(count: int) -> None:
    """Print the tables."""
    keys = [f"https://example.com/{number % 97}/article-{number}?page=1" for number in range(count)]
    length = sum(map(len, keys)) / count
    _print(f"{count:,} keys of {length:.0f} bytes on average")
    _print("| server | kept as | bytes per key |")
    _print("|---|---|---|")
    for name in SERVERS:
        for row in _layouts(name, keys):
            _print(row)
    _print(
        "| server | claims | new: server ms | new: caller ms | old: server ms | old: caller ms |"
    )
    _print("|---|---|---|---|---|---|")
    for name in SERVERS:
        for row in _speeds(name, keys):
            _print(row)
    _print("| Bloom filter made for | error rate asked for | bytes per key | new keys refused |")
    _print("|---|---|---|---|")
    for rate in ERROR_RATES:
        _print(_errors(keys, rate))


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _layouts(name: str, keys: Sequence[str]) -> Iterator[str]:
    """What a key takes as we keep it, and as it could be kept instead."""
    for layout, store in _STORES.items():
        with Server(find_binary(name)) as server:
            client = server.client()
            for chunk in _chunks(keys):
                raw = [key.encode() for key in chunk]
                digests = [hashlib.blake2b(key, digest_size=16).digest() for key in raw]
                store(client, raw, digests)
            yield f"| {name} | {layout} | {_bytes(client, 'k') / len(keys):.0f} |"


def _zset(client: Any, raw: Sequence[bytes], digests: Sequence[bytes]) -> None:
    client.zadd("k", dict.fromkeys(digests, time.time() * 1000 // 1))


def _raw_zset(client: Any, raw: Sequence[bytes], digests: Sequence[bytes]) -> None:
    client.zadd("k", dict.fromkeys(raw, time.time() * 1000 // 1))


def _hash(client: Any, raw: Sequence[bytes], digests: Sequence[bytes]) -> None:
    client.hset("k", mapping=dict.fromkeys(digests, b"owner." + b"expiry"))


def _raw_hash(client: Any, raw: Sequence[bytes], digests: Sequence[bytes]) -> None:
    client.hset("k", mapping=dict.fromkeys(raw, b"owner." + b"expiry"))


_STORES: dict[str, Store] = {
    "hash, digest -> owner and expiry (`Claims`)": _hash,
    "hash, key -> owner and expiry": _raw_hash,
    "sorted set of digests, without owner": _zset,
    "sorted set of keys, without owner": _raw_zset,
}


def _bytes(client: Any, key: str) -> int:
    return int(client.execute_command("MEMORY", "USAGE", key, "SAMPLES", "0"))


def _speeds(name: str, keys: Sequence[str]) -> Iterator[str]:
    few = keys[:_TIMED]
    with Server(find_binary(name)) as server:
        client = server.client()
        with Claims(client, "links", ttl=TTL) as claims:
            for chunk in _chunks(keys[_TIMED:]):
                claims.claim(chunk)
            yield _speed(name, "new", client, claims, few)
            yield _speed(name, "old", client, claims, few)
            client.delete("{dramatiq-streams:claims:links}:cursor")
            yield _speed(name, "old, and expired ones are looked for", client, claims, few)
        with BloomClaims(client, "links", capacity=len(keys)) as bloom:
            yield _speed(name, "new, Bloom filter", client, bloom, few)
            yield _speed(name, "old, Bloom filter", client, bloom, few)


def _speed(
    name: str, what: str, client: Any, claims: Claims | BloomClaims, keys: Sequence[str]
) -> str:
    server_ms, caller_ms = _timed(client, claims, keys)
    return f"| {name} | {what} | {server_ms:.1f} | {caller_ms:.1f} |"


def _timed(client: Any, claims: Claims | BloomClaims, keys: Sequence[str]) -> tuple[float, float]:
    """The server's and the caller's milliseconds for one call."""
    waits = []
    before = _server_ms(client)
    for chunk in _chunks(keys):
        started = time.perf_counter()
        claims.claim(chunk)
        waits.append((time.perf_counter() - started) * 1000)
    return (_server_ms(client) - before) / len(waits), statistics.median(waits)


def _server_ms(client: Any) -> float:
    """The processor time of the thread that runs commands: what others run here is not in it."""
    found = client.info("cpu")
    names = ("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
    return sum(float(found[name]) for name in names) * 1000


def _errors(keys: Sequence[str], rate: float) -> str:
    """How many new keys a filter refuses that is full."""
    with Server() as server:
        client = server.client()
        with BloomClaims(client, "links", capacity=len(keys), error_rate=rate) as claims:
            for chunk in _chunks(keys):
                claims.claim(chunk)
            others = [f"https://example.org/{number}" for number in range(100_000)]
            bits = "{dramatiq-streams:claims:links}:bloom"
            size = _bytes(client, bits)
            client.copy(bits, "full")
            refused = 0
            for chunk in _chunks(others):
                # Each thousand asks a filter that is just full, not one that has grown since.
                client.copy("full", bits, replace=True)
                refused += claims.claim(chunk).count(False)
    each = f"{size / len(keys):.1f} | {refused / len(others):.3%}"
    return f"| {len(keys):,} | {rate:.1%} | {each} |"


def _chunks(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(keys), CALL):
        yield keys[first : first + CALL]


if __name__ == "__main__":
    main(ask(__doc__, "KEYS", default=1_000_000))
