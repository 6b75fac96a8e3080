"""Section 1: an asynchronous exception at any bytecode inside `enqueue` leaves no stale reply."""

import gc
import itertools
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest
import redis
from dramatiq.middleware.time_limit import TimeLimitExceeded

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeBroker
from tests.contract.interrupted import stale_replies
from tests.contract.queue_state import QueueState, new_message
from tests.support.servers import Server
from tests.support.waiting import wait_until

PROGRAM = Path(__file__).with_name("interrupted.py")


class InterruptAtLine:
    """Raises TimeLimitExceeded when the n-th line from now on is about to run in this thread."""

    def __init__(self, number: int) -> None:
        self.lines_left = number
        self._previous = sys.gettrace()

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._previous)

    @property
    def has_struck(self) -> bool:
        return self.lines_left <= 0

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and not self.has_struck and is_ours(frame):
            self.lines_left -= 1
            if self.has_struck:
                raise TimeLimitExceeded
        return self._trace


def is_ours(frame: FrameType) -> bool:
    return any(part in frame.f_code.co_filename for part in ("/dramatiq_streams/", "/redis/"))


@dataclass(frozen=True, slots=True)
class Interrupted:
    """What came of interrupting one enqueue after the other, each a line later than the last."""

    begun: int
    struck: int
    stale: dict[int, list[str]]


def interrupt_at_every_line(broker: StreamsBroker, delay: int | None) -> Interrupted:
    stale: dict[int, list[str]] = {}
    struck = 0
    for line in itertools.count(1):
        broker.enqueue(new_message(-line))  # so that a connection is open and idle
        interrupt = InterruptAtLine(line)
        try:
            with interrupt:
                broker.enqueue(new_message(line), delay=delay)
        except TimeLimitExceeded:
            struck += 1
        if found := stale_replies(broker):
            stale[line] = found
        if not interrupt.has_struck:
            break
    return Interrupted(2 * line, struck, stale)


either = pytest.mark.parametrize("delay", [None, 60_000], ids=["without delay", "with delay"])


@either
def test_interrupt_at_any_line_of_enqueue_leaves_no_stale_reply(
    broker: StreamsBroker, queue: QueueState, delay: int | None
) -> None:
    result = interrupt_at_every_line(broker, delay)

    assert result.stale == {}
    assert result.struck > 50
    assert result.begun / 2 <= queue.count() <= result.begun


@either
def test_interrupt_at_any_line_of_enqueue_leaves_no_connection_open_but_the_idle(
    server: Server,
    make_broker: MakeBroker,
    redis_client: redis.Redis,
    namespace: str,
    delay: int | None,
) -> None:
    broker = make_broker(url=server.admin_url, client_name=namespace)

    interrupt_at_every_line(broker, delay)
    gc.collect()

    def open_connections() -> int:
        return sum(client["name"] == namespace for client in redis_client.client_list())

    wait_until(lambda: open_connections() <= 1, message="one idle connection at most")


def test_more_threads_than_redis_py_allows_connections_may_enqueue(
    broker: StreamsBroker, queue: QueueState
) -> None:
    everybody = threading.Barrier(150)
    executor = broker._process.executor

    def enqueue(number: int) -> None:
        _, connection = executor._connect()
        everybody.wait(20)
        executor._give_back(connection, 0)
        broker.enqueue(new_message(number))

    with ThreadPoolExecutor(150) as threads:
        list(threads.map(enqueue, range(150)))

    assert queue.count() == 150


@pytest.mark.parametrize("delay", ["0", "60000"], ids=["without delay", "with delay"])
def test_interrupts_at_random_leave_every_connection_clean(
    server: Server, namespace: str, queue: QueueState, delay: str
) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), server.url, namespace, delay],
        capture_output=True,
        text=True,
        timeout=40,
    )

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert not report["is_alive"]
    assert report["errors"] == []
    assert report["stale"] == []
    assert report["interrupts"] > 20
    assert report["confirmed"] <= queue.count() <= report["begun"]
