"""What a unique message costs beside an ordinary one: to send, to run, and in the server's memory.

Run it from the root of the repository: `python -m tests.benchmarks.unique [MESSAGES]`, by default
with 20,000. It starts its own server. What is printed is processor time, of the sender and of the
server's thread together, so that other programs do not disturb it; and only the ratios mean
something on another machine. The two kinds take turns, and the medians are taken.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dramatiq
from dramatiq.message import Message

from dramatiq_streams import StreamsBroker
from dramatiq_streams.keys import queue_keys
from dramatiq_streams.lanes import DEFAULT_LANES
from tests.benchmarks.asking import ask
from tests.support.servers import Server

ROUNDS = 5
NAMESPACE = "bench"
KEYS = queue_keys(NAMESPACE, "default", tuple(DEFAULT_LANES))
HOUR_MS = 3_600_000

#: How many messages are sent one by one in each round.
_SINGLE = 1_000
_HELD = 500


def main(count: int) -> None:
    """Print the tables."""
    with Server() as server:
        broker = StreamsBroker(url=server.url, namespace=NAMESPACE, middleware=[])
        dramatiq.set_broker(broker)
        ordinary = dramatiq.actor(actor_name="ordinary")(_nothing)
        unique = dramatiq.actor(actor_name="unique", unique_for=HOUR_MS)(_nothing)
        started = dramatiq.actor(actor_name="started", unique_until="started")(_nothing)
        _print("| what | ordinary, us | unique, us | ratio |")
        _print("|---|---|---|---|")
        for what, measure in (("send", _sends), ("`enqueue_many`, per message", _many)):
            _print(_compared(broker, what, measure, ordinary, unique))
        _print(_compared(broker, "a second `send`", _duplicates, ordinary, unique))
        _print(_compared(broker, "read and acknowledge", _runs, ordinary, unique))
        _print(_compared(broker, "the same, `started`", _starts, ordinary, started))
        for line in _memory(broker, server.client(), unique, ordinary, count):
            _print(line)
        broker.close()


def _nothing(url: str) -> None:
    """The actor."""


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _urls(count: int) -> Sequence[str]:
    return [f"https://example.com/{number % 97}/article-{number}?page=1" for number in range(count)]


def _messages(actor: Any, count: int) -> list[Message[Any]]:
    return [actor.message(url) for url in _urls(count)]


def _compared(
    broker: StreamsBroker,
    what: str,
    measure: Callable[[StreamsBroker, Any], float],
    ordinary: Any,
    unique: Any,
) -> str:
    pairs = []
    for _ in range(ROUNDS):
        pair = []
        for actor in (ordinary, unique):
            pair.append(measure(broker, actor))
            broker.flush("default")
        pairs.append(pair)
    first, second = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    return f"| {what} | {first:.0f} | {second:.0f} | {ratio:.2f} |"


def _sends(broker: StreamsBroker, actor: Any) -> float:
    return _one_by_one(broker, _messages(actor, _SINGLE))


def _duplicates(broker: StreamsBroker, actor: Any) -> float:
    broker.enqueue_many(_messages(actor, _SINGLE))
    return _one_by_one(broker, _messages(actor, _SINGLE))


def _many(broker: StreamsBroker, actor: Any) -> float:
    messages = _messages(actor, 5_000)
    return _spent(broker, lambda: broker.enqueue_many(messages)) / len(messages)


def _runs(broker: StreamsBroker, actor: Any) -> float:
    """What a consumer does: it reads, and its next read carries the acks."""
    return _consumed(broker, actor, start=False)


def _starts(broker: StreamsBroker, actor: Any) -> float:
    return _consumed(broker, actor, start=True)


def _consumed(broker: StreamsBroker, actor: Any, *, start: bool) -> float:
    messages = _messages(actor, 2_000)
    broker.enqueue_many(messages)

    def consume() -> None:
        consumer = broker.consume("default", prefetch=_HELD, timeout=1_000)
        for _ in messages:
            message = next(consumer)
            if message is None:
                raise SystemExit("No message came.")
            if start:
                broker.emit_before("process_message", message)
            consumer.ack(message)
        consumer.close()

    return _spent(broker, consume) / len(messages)


def _one_by_one(broker: StreamsBroker, messages: Sequence[Message[Any]]) -> float:
    def send() -> None:
        for message in messages:
            broker.enqueue(message)

    return _spent(broker, send) / len(messages)


def _spent(broker: StreamsBroker, deed: Callable[[], object]) -> float:
    """Microseconds of processor time: of this thread, and of the server's that runs commands."""
    before = _server_us(broker)
    begun = time.thread_time()
    deed()
    return (time.thread_time() - begun) * 1e6 + _server_us(broker) - before


def _server_us(broker: StreamsBroker) -> float:
    found = broker.client.info("cpu")
    names = ("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
    return sum(float(found[name]) for name in names) * 1e6


def _memory(
    broker: StreamsBroker, client: Any, unique: Any, ordinary: Any, count: int
) -> Iterator[str]:
    broker.enqueue_many(_messages(ordinary, count))
    plain = _bytes(client, KEYS.lanes[1])
    broker.flush("default")
    broker.enqueue_many(_messages(unique, count))
    entries = _bytes(client, KEYS.lanes[1]) - plain
    keys = _bytes(client, KEYS.unique) + _bytes(client, KEYS.unique_messages)
    yield f"{count:,} keys: {keys / count:.0f} bytes each, and {entries / count:.0f} in its entry"


def _bytes(client: Any, key: str) -> int:
    return int(client.execute_command("MEMORY", "USAGE", key, "SAMPLES", "0"))


if __name__ == "__main__":
    main(ask(__doc__, "MESSAGES", default=20_000))
