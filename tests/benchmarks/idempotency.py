"""What a key costs: a whole cycle beside the raw pair that a lock is, a key that is done, bytes.

Run it from the root of the repository: `python -m tests.benchmarks.idempotency [CYCLES]`. It starts
its own servers. All kinds of cycle are run in turns, so that a busy machine slows all of them; the
ratios are what counts.
"""

import logging
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import redis

from dramatiq_streams import StreamsBroker
from dramatiq_streams.events import Events
from dramatiq_streams.executor import Executor
from dramatiq_streams.middleware.idempotency.claiming import Claimant
from dramatiq_streams.middleware.idempotency.masters import Masters
from dramatiq_streams.middleware.idempotency.options import IdempotencyOptions
from dramatiq_streams.middleware.idempotency.records import Records, Request
from dramatiq_streams.middleware.idempotency.watchdog import Hold
from tests.benchmarks.asking import ask
from tests.support.servers import Server

_RELEASE = """
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
end
return 0
"""

Cycle = Callable[[str], None]


def main(cycles: int) -> None:
    """Print the table."""
    logging.disable(logging.INFO)
    with ExitStack() as stack:
        server, *lockers = (stack.enter_context(Server()) for _ in range(4))
        kinds: dict[str, Cycle] = {
            "raw SET NX PX and script": raw_pair(server.client()),
            "one lock server, the broker's own": cycle(stack, server, [server.url]),
            "three lock servers": cycle(stack, server, [each.url for each in lockers]),
        }
        kinds["a key that is done"] = looking(stack, server)
        for kind in kinds.values():  # scripts are loaded, connections opened
            kind("first")
        times: dict[str, list[float]] = {name: [] for name in kinds}
        for number in range(cycles):
            for name, run in kinds.items():
                began = time.perf_counter()
                run(f"key{number}")
                times[name].append(time.perf_counter() - began)
        _print("| cycle | median ms | p99 ms | median / raw pair |")
        _print("|---|---|---|---|")
        raw = statistics.median(times["raw SET NX PX and script"])
        for name, each in times.items():
            median, p99 = statistics.median(each), statistics.quantiles(each, n=100)[98]
            _print(f"| {name} | {median * 1e3:.2f} | {p99 * 1e3:.2f} | {median / raw:.1f} |")
        _print(f"a record that is done takes {_bytes(server.client()):.0f} bytes")


def raw_pair(client: redis.Redis) -> Cycle:
    """The least that a lock can be."""
    release = client.register_script(_RELEASE)

    def run(key: str) -> None:
        owner = uuid.uuid4().hex
        assert client.set(f"raw:{key}", owner, px=15_000, nx=True)
        assert release(keys=[f"raw:{key}"], args=[owner]) == 1

    return run


def cycle(stack: ExitStack, server: Server, masters: list[str]) -> Cycle:
    """Claim a key, and complete it."""
    claimant = _claimant(stack, server, masters)

    def run(key: str) -> None:
        request = Request(f"{len(masters)}:{key}", "arguments", uuid.uuid4().hex, 600_000)
        hold = claimant.claim(request, queue_name="default", interrupts=False)
        assert isinstance(hold, Hold)
        claimant.complete(hold, None)

    return run


def looking(stack: ExitStack, server: Server) -> Cycle:
    """Find out that a key is done."""
    claimant = _claimant(stack, server, [server.url])
    request = Request("done", "arguments", "first", 600_000)
    hold = claimant.claim(request, queue_name="default", interrupts=False)
    assert isinstance(hold, Hold)
    claimant.complete(hold, None)

    def run(key: str) -> None:
        assert not isinstance(claimant.claim(request, queue_name="default", interrupts=False), Hold)

    return run


def _claimant(stack: ExitStack, server: Server, masters: list[str]) -> Claimant:
    broker = StreamsBroker(url=server.url)
    options = IdempotencyOptions.of(
        ttl=600_000,
        lease=15_000,
        on_duplicate="skip",
        on_busy="defer",
        on_unavailable="fail",
        key_prefix="idempotency",
    )
    records = Records(
        Executor(broker.client.connection_pool), namespace="bench", prefix=options.key_prefix
    )
    made = Claimant(records, Masters(masters), options=options, events=Events())
    stack.callback(broker.close)
    stack.callback(made.close)
    return made


def _bytes(client: redis.Redis) -> float:
    """What a record takes, of an actor and a URL as they usually are."""
    return statistics.mean(_usages(client))


def _usages(client: redis.Redis) -> Iterator[int]:
    for key in client.scan_iter(match="{bench:idempotency}:record:*", count=1_000):
        yield client.memory_usage(key) or 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(ask(__doc__, "CYCLES", default=3_000))
