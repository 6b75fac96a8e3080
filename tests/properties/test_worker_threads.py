"""Worker threads settle while the consumer thread reads: every message ends as it was meant to."""

from __future__ import annotations

import itertools
import queue as queues
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from dramatiq.broker import MessageProxy
from dramatiq.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from dramatiq_streams import StreamsBroker
from dramatiq_streams.consumer import StreamsConsumer
from tests.properties.queue_under_test import QUEUE, QueueUnderTest
from tests.support.servers import Server

DEADLINE_SECONDS = 30.0

fates = st.lists(
    st.sampled_from(["ack", "reject", "retry", "delayed retry", "requeue"]),
    min_size=1,
    max_size=40,
)


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Threads take turns a hundred times as often as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 100)
    yield
    sys.setswitchinterval(usual)


class Workers:
    """Threads that do to each message what its second argument says; when it comes again, ack."""

    def __init__(self, broker: StreamsBroker, consumer: StreamsConsumer, count: int) -> None:
        self.broker = broker
        self.consumer = consumer
        self.waiting: queues.Queue[MessageProxy | None] = queues.Queue()
        self.runs: Counter[int] = Counter()
        self.failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        for _ in self._threads:
            self.waiting.put(None)
        for thread in self._threads:
            thread.join(DEADLINE_SECONDS)
            assert not thread.is_alive()

    def _work(self) -> None:
        while message := self.waiting.get():
            try:
                self._settle(message)
            except BaseException as error:
                self.failures.append(error)

    def _settle(self, message: MessageProxy) -> None:
        number, fate = message.args
        self.runs[number] += 1
        is_first = self.runs[number] == 1
        if fate == "requeue" and is_first:
            self.consumer.requeue([message])
        elif fate == "reject":
            self.consumer.nack(message)
        elif "retry" in fate and is_first:
            message.options["retries"] = 1
            self.broker.enqueue(message, delay=0 if fate == "delayed retry" else None)  # type: ignore[arg-type]
            self.consumer.ack(message)
        else:
            self.consumer.ack(message)


@pytest.mark.slow
@pytest.mark.timeout(300)  # a failure is made small before it is shown
@pytest.mark.usefixtures("quick_switches")
def test_each_message_ends_as_it_was_meant_to(server: Server, namespace: str) -> None:
    numbers = itertools.count()

    @settings(max_examples=25)
    @given(fates=fates, thread_count=st.integers(1, 4), prefetch=st.integers(1, 10))
    def check(fates: list[str], thread_count: int, prefetch: int) -> None:
        queue = QueueUnderTest(server.url, f"{namespace}:{next(numbers)}")
        broker = StreamsBroker(url=server.url, namespace=queue.namespace)
        for number, fate in enumerate(fates):
            broker.enqueue(Message(QUEUE, "actor", (number, fate), {}, {}))
        consumer = broker.consume(QUEUE, prefetch=prefetch, timeout=20)
        workers = Workers(broker, consumer, thread_count)
        expected = Counter(
            {number: 1 if fate in ("ack", "reject") else 2 for number, fate in enumerate(fates)}
        )

        deadline = threading.Event()
        timer = threading.Timer(DEADLINE_SECONDS, deadline.set)
        timer.start()
        while workers.runs.total() < expected.total() and not deadline.is_set():
            message = next(consumer)
            if message is not None:
                workers.waiting.put(message)
        timer.cancel()
        workers.finish()
        consumer.close()
        broker.close()

        state = queue.state()
        queue.close()
        assert workers.failures == []
        assert workers.runs == expected
        assert (state.lanes, state.pending, state.delayed) == ([[], [], []], [{}, {}, {}], {})
        dead = sorted(Message.decode(body.encode()).args[0] for body, _, _ in state.dead)
        assert dead == [number for number, fate in enumerate(fates) if fate == "reject"]

    check()
