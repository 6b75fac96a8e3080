"""Section 1: an asynchronous exception at any bytecode inside `enqueue` leaves no stale reply."""

import contextlib
import random
import threading
import time

import pytest
import redis
from dramatiq.middleware.shutdown import Shutdown
from dramatiq.middleware.time_limit import TimeLimitExceeded
from dramatiq.threading import raise_thread_exception

from dramatiq_streams import StreamsBroker
from tests.contract.queue_state import QueueState, new_message

HAMMER_SECONDS = 1.0


class Victim(threading.Thread):
    """Enqueues without end and survives every interrupt, counting them."""

    def __init__(self, broker: StreamsBroker, delay: int | None) -> None:
        super().__init__(daemon=True)
        self.broker = broker
        self.delay = delay
        self.confirmed = 0
        self.started = 0
        self.interrupts = 0
        self.others: list[Exception] = []
        self.is_stopping = False
        self.pause = threading.Event()

    def run(self) -> None:
        while not self.is_stopping:
            with contextlib.suppress(TimeLimitExceeded, Shutdown):
                self._live()

    def _live(self) -> None:
        """One more frame around the counting, which can be interrupted too."""
        while not self.is_stopping:
            try:
                self._work()
            except (TimeLimitExceeded, Shutdown):
                self.interrupts += 1

    def _work(self) -> None:
        while not self.is_stopping:
            try:
                self.started += 1
                self.broker.enqueue(new_message(self.started), delay=self.delay)
                self.confirmed += 1
            except Exception as error:
                self.others.append(error)


# An interrupt that lands in a `__del__` is printed and lost; that is Python's, not ours.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("delay", [None, 60_000])
@pytest.mark.parametrize("interrupt", [TimeLimitExceeded, Shutdown])
def test_interrupts_leave_every_connection_clean(
    broker: StreamsBroker,
    queue: QueueState,
    delay: int | None,
    interrupt: type[BaseException],
) -> None:
    victim = Victim(broker, delay)
    victim.start()
    deadline = time.monotonic() + HAMMER_SECONDS
    while time.monotonic() < deadline:
        raise_thread_exception(victim.ident, interrupt)
        victim.pause.wait(random.uniform(0.001, 0.004))
    victim.is_stopping = True
    victim.join(10)

    assert not victim.is_alive()
    assert victim.interrupts > 50
    assert victim.others == []
    assert stale_replies(broker.client) == []
    assert victim.confirmed <= queue.count() <= victim.started


def stale_replies(client: redis.Redis) -> list[object]:
    """What idle connections of the client's pool answer that they were not asked."""
    pool = client.connection_pool
    connections = [pool.get_connection() for _ in range(len(pool._available_connections) or 1)]
    found: list[object] = []
    for number, connection in enumerate(connections):
        connection.send_command("ECHO", number)
        reply = connection.read_response()
        if reply != str(number).encode():
            found.append(reply)
        pool.release(connection)
    return found
