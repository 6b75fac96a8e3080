"""What a lock costs: of one master and of three, in order and with one down or hanging.

Run it from the root of the repository: `python -m tests.benchmarks.locks`. It starts its own
servers, and takes about two minutes; most of it waiting for pottery as it is shipped.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis
from pottery import Redlock as ShippedRedlock
from redis.backoff import NoBackoff
from redis.retry import Retry

from dramatiq_streams.errors import LocksUnavailable
from dramatiq_streams.middleware.idempotency.masters import Masters
from dramatiq_streams.middleware.idempotency.redlock import Redlock
from tests.support.locking import lock_servers
from tests.support.servers import Server

LEASE_MS = 10_000
RELEASE = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
)

#: Takes and releases one lock, by the number of the attempt; False when it was not granted.
Pair = Callable[[int], bool]


def main() -> None:
    """Print one table for each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5_000, help="of each that is in order")
    parser.add_argument("--uncontended", type=int, default=100_000, help="to look for a failure")
    parser.add_argument("--master-timeout", type=int, default=100, help="ms, of the uncontended")
    parser.add_argument("--only-uncontended", action="store_true")
    options = parser.parse_args()
    with lock_servers(3) as servers:
        if not options.only_uncontended:
            _cost(servers, options.pairs)
            _trouble(servers)
        _failures(servers, options.uncontended, options.master_timeout)


def _cost(servers: list[Server], pairs: int) -> None:
    _print("| acquire and release | p50 ms | p99 ms | mean ms | of the raw pair |")
    _print("|---|---|---|---|---|")
    base = 0.0
    with _raw(servers[0]) as raw, _ours(servers[:1]) as one, _ours(servers) as three:
        ways = [
            ("raw `SET NX PX` and script, one server", raw),
            ("1 master", one),
            ("3 masters", three),
        ]
        for name, times in _interleaved(ways, pairs).items():
            mean = sum(times) / len(times)
            base = base or mean
            at = sorted(times)
            p50, p99 = at[len(at) // 2], at[len(at) * 99 // 100]
            _print(f"| {name} | {p50:.2f} | {p99:.2f} | {mean:.2f} | {mean / base:.2f} |")


def _interleaved(ways: list[tuple[str, Pair]], pairs: int) -> dict[str, list[float]]:
    """The times of each, in turns of a hundred, so that a busy machine is unfair to none."""
    times: dict[str, list[float]] = {name: [] for name, _ in ways}
    for first in range(0, pairs, 100):
        for name, pair in ways:
            for number in range(first, first + 100):
                times[name].append(_timed(pair, number)[0])
    return times


def _trouble(servers: list[Server]) -> None:
    _print("")
    _print("| one of 3 masters | whose | acquire and release | held by another | threads | keys |")
    _print("|---|---|---|---|---|---|")
    for state in ("up", "down", "hanging"):
        for whose, make in (("ours", _ours), ("pottery's", _shipped)):
            with make(servers) as pair:
                _timed(pair, 0)
                threads = threading.active_count()
                _strike(servers[1], state)
                times = [_timed(pair, number)[0] for number in range(1, 6)]
                for server in (servers[0], servers[2]):
                    server.client().mset({"lock:6": "another's", "redlock:lock:6": "another's"})
                held, is_granted = _timed(pair, 6)
                more = threading.active_count() - threads
                left = _left(servers, state)
            _print(
                f"| {state} | {whose} | {max(times):,.1f} ms | {held:,.1f} ms | {more:+} | {left} |"
                + " granted!" * is_granted
            )
            for server in servers:
                server.client().flushall()


def _strike(server: Server, state: str) -> None:
    if state == "down":
        server.kill()
    elif state == "hanging":
        server.pause()


def _left(servers: list[Server], state: str) -> int:
    """Keys on all of them, three seconds after the one in trouble is in order again."""
    servers[1].start()
    servers[1].resume()
    if state != "up":
        time.sleep(3)
    others = 4  # what held the lock: two names on two servers
    return sum(server.client().dbsize() for server in servers) - others


def _failures(servers: list[Server], count: int, timeout_ms: int) -> None:
    _print("")
    _print("| uncontended | attempts | not granted |")
    _print("|---|---|---|")
    for size in (1, 3):
        with _ours(servers[:size], timeout_ms=timeout_ms) as pair:
            failed = sum(not _timed(pair, number)[1] for number in range(count))
        _print(f"| {size} master{'s' * (size > 1)} | {count:,} | {failed:,} |")


def _timed(pair: Pair, number: int) -> tuple[float, bool]:
    """Milliseconds, and whether it was granted."""
    started = time.perf_counter()
    is_granted = pair(number)
    return (time.perf_counter() - started) * 1000, is_granted


@contextmanager
def _raw(server: Server) -> Iterator[Pair]:
    with redis.Redis(unix_socket_path=server.socket, retry=Retry(NoBackoff(), 0)) as client:
        release = client.register_script(RELEASE)

        def pair(number: int) -> bool:
            is_granted = client.set(f"lock:{number}", "owner", px=LEASE_MS, nx=True)
            release(keys=[f"lock:{number}"], args=["owner"])
            return bool(is_granted)

        yield pair


@contextmanager
def _ours(servers: list[Server], *, timeout_ms: int = 100) -> Iterator[Pair]:
    masters = Masters([server.url for server in servers], master_timeout=timeout_ms)

    def pair(number: int) -> bool:
        lock = Redlock(f"lock:{number}", masters=masters, lease_ms=LEASE_MS)
        try:
            return lock.acquire()
        except LocksUnavailable:
            return False
        finally:
            lock.release()

    yield pair
    masters.close()


@contextmanager
def _shipped(servers: list[Server]) -> Iterator[Pair]:
    clients = {redis.Redis(unix_socket_path=server.socket) for server in servers}

    def pair(number: int) -> bool:
        lock = ShippedRedlock(
            key=f"lock:{number}", masters=clients, auto_release_time=LEASE_MS / 1000
        )
        is_granted = lock.acquire(blocking=False)
        if is_granted:
            lock.release()
        return is_granted

    yield pair
    for client in clients:
        client.close()


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
