"""Requests and replies get lost at any moment: what was settled is settled once, and for good."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import pytest
import redis
from dramatiq.errors import BrokerConnectionError, ConnectionClosed
from dramatiq.message import Message
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dramatiq_streams.consumer import StreamsConsumer
from dramatiq_streams.dead_letters import DeadLetters
from dramatiq_streams.delays import Delays
from dramatiq_streams.executor import Executor
from dramatiq_streams.fetching import Fetcher
from dramatiq_streams.isolation import Isolation
from dramatiq_streams.lifetimes import Lifetimes
from dramatiq_streams.messages import DeliveredMessage, RetryHandOver, encode
from dramatiq_streams.outages import Outages
from dramatiq_streams.queues import Queues
from dramatiq_streams.scope import Scope
from dramatiq_streams.settlement import Settlement
from tests.properties.queue_under_test import (
    DEAD_TTL_MS,
    LANES,
    QUEUE,
    QueueUnderTest,
)
from tests.support.servers import Server

PREFETCH = 4

faults = st.lists(st.sampled_from(["none", "request", "reply"]), max_size=3)
choices = st.integers(0, 1000)


class FlakyExecutor(Executor):
    """Loses requests, or their replies, as it is told to."""

    def __init__(self, pool: redis.ConnectionPool) -> None:
        super().__init__(pool)
        self.plan: deque[str] = deque()

    def execute(self, *command: Any) -> Any:
        return self._lose(lambda: super(FlakyExecutor, self).execute(*command))

    def execute_blocking(self, *command: Any, alarm: Any) -> Any:
        run = super().execute_blocking
        return self._lose(lambda: run(*command, alarm=alarm))

    def _lose(self, run: Callable[[], Any]) -> Any:
        fault = self.plan.popleft() if self.plan else "none"
        if fault == "request":
            raise ConnectionClosed("The request was lost.")
        reply = run()
        if fault == "reply":
            raise ConnectionClosed("The reply was lost.")
        return reply


class SettlementMachine(RuleBasedStateMachine):
    """A worker with one consumer at a time, which rides errors out or is replaced after one."""

    def __init__(self, url: str, namespace: str) -> None:
        super().__init__()
        self.queue = QueueUnderTest(url, namespace)
        self.executor = FlakyExecutor(self.queue.client.connection_pool)
        scope = Scope(namespace, LANES, "worker")
        self.queues = Queues(self.executor, scope)
        self.isolation = Isolation()
        self.settlement = Settlement(
            QUEUE,
            queues=self.queues,
            delays=Delays(self.executor, scope),
            dead_letters=DeadLetters(self.executor, scope, lifetimes=Lifetimes(DEAD_TTL_MS)),
            on_settled=self.isolation.leave,
        )
        self.outages = Outages()
        self.consumer = self.new_consumer()
        self.numbers = itertools.count(1)
        self.running: list[DeliveredMessage] = []
        #: What is to be called until it succeeds, as the Worker does.
        self.unsettled: list[Callable[[], object]] = []
        self.expected: Counter[int] = Counter()
        self.delivered: Counter[int] = Counter()
        self.rejected: Counter[int] = Counter()

    def new_consumer(self) -> StreamsConsumer:
        fetcher = Fetcher(
            QUEUE,
            prefetch=PREFETCH,
            lease_ms=3_600_000,
            lanes=LANES,
            queues=self.queues,
            forwarder=self.queues,
            settlement=self.settlement,
            register=lambda: None,
        )
        return StreamsConsumer(
            fetcher,
            timeout_ms=1,
            connection=self.executor,
            settlement=self.settlement,
            isolation=self.isolation,
            retreat=threading.Event(),
            outages=self.outages,
        )

    @rule(lane=st.integers(1, 3), count=st.integers(1, 4))
    def enqueue(self, lane: int, count: int) -> None:
        for _ in range(count):
            number = next(self.numbers)
            message: Message[Any] = Message(QUEUE, "actor", (number,), {}, {})
            self.queue.rooms("producer").queues.enqueue(QUEUE, lane, encode(message))
            self.expected[number] += 1

    @precondition(lambda self: self.expected.total() > self.delivered.total())
    @rule(plan=faults, is_worker=st.booleans())
    def take_a_message(self, plan: list[str], is_worker: bool) -> None:
        self.executor.plan.extend(plan)
        self.outages.are_ridden_out = is_worker
        try:
            message = next(self.consumer)
        except BrokerConnectionError:
            self.replace_consumer([])
            return
        finally:
            self.executor.plan.clear()
            self.outages.are_ridden_out = False
        if isinstance(message, DeliveredMessage):
            self.note_delivery(message)

    @rule(plan=faults)
    def replace_consumer(self, plan: list[str]) -> None:
        self.executor.plan.extend(plan)
        self.consumer.close()
        self.executor.plan.clear()
        self.consumer = self.new_consumer()

    @rule(lane=st.integers(1, 3))
    def lose_an_empty_lane(self, lane: int) -> None:
        """As an eviction or somebody's DEL does; the other lanes stay."""
        if not self.queue.state().lanes[lane - 1]:
            self.queue.client.delete(self.queue.keys.lanes[lane - 1])

    @precondition(lambda self: self.running)
    @rule(choice=choices, plan=faults)
    def acknowledge(self, choice: int, plan: list[str]) -> None:
        message = self.pick(choice)
        self.settle(lambda: self.consumer.ack(message), plan)

    @precondition(lambda self: self.running)
    @rule(choice=choices, plan=faults)
    def reject(self, choice: int, plan: list[str]) -> None:
        message = self.pick(choice)
        self.rejected[message.args[0]] += 1
        self.settle(lambda: self.consumer.nack(message), plan)

    @precondition(lambda self: self.running)
    @rule(choice=choices, plan=faults, lane=st.integers(1, 3), delay_ms=st.sampled_from([None, 0]))
    def retry(self, choice: int, plan: list[str], lane: int, delay_ms: int | None) -> None:
        message = self.pick(choice)
        retry = RetryHandOver(f"d{next(self.numbers)}", lane, encode(message.message), delay_ms)
        self.expected[message.args[0]] += 1
        self.executor.plan.extend(plan)
        # Dramatiq logs what Retries raises, and acknowledges the message.
        with contextlib.suppress(BrokerConnectionError):
            self.settlement.hand_over(message, retry)
        self.settle(lambda: self.consumer.ack(message), [])

    @precondition(lambda self: self.running)
    @rule(choice=choices, plan=faults)
    def requeue(self, choice: int, plan: list[str]) -> None:
        message = self.pick(choice)
        self.expected[message.args[0]] += 1
        self.executor.plan.extend(plan)
        try:
            self.consumer.requeue([message])
        except BrokerConnectionError:
            self.executor.plan.clear()
            self.replace_consumer([])
        self.executor.plan.clear()

    @precondition(lambda self: self.unsettled)
    @rule(plan=faults)
    def try_again(self, plan: list[str]) -> None:
        self.settle(self.unsettled.pop(0), plan)

    @invariant()
    def nothing_settled_comes_back(self) -> None:
        assert not self.delivered - self.expected

    @invariant()
    def nothing_is_in_two_places(self) -> None:
        state = self.queue.state()
        places = Counter(
            Message.decode(body.encode()).args[0] for body in state.bodies().elements()
        )
        assert all(count == 1 for count in places.values())

    def teardown(self) -> None:
        try:
            self.drain()
        finally:
            self.consumer.close()
            self.queue.close()

    def drain(self) -> None:
        """With the network whole again everything is run and settled as it was meant to be."""
        for call in self.unsettled:
            call()
        for message in self.running:
            self.consumer.ack(message)
        for _ in range(self.expected.total() + 5):
            if self.delivered.total() < self.expected.total():
                delivered = next(self.consumer)
                if isinstance(delivered, DeliveredMessage):
                    self.note_delivery(delivered)
                    self.consumer.ack(delivered)
        self.consumer.close()
        state = self.queue.state()
        dead = Counter(Message.decode(body.encode()).args[0] for body, _, _ in state.dead)
        assert self.delivered == self.expected
        assert dead == self.rejected
        assert (state.lanes, state.delayed) == ([[], [], []], {})
        assert self.settlement.holdings.known() == []

    def note_delivery(self, message: DeliveredMessage) -> None:
        # A delivery whose reply was lost is given back and not counted.
        assert message.entry.deliveries == 1
        self.delivered[message.args[0]] += 1
        self.running.append(message)

    def pick(self, choice: int) -> DeliveredMessage:
        return self.running.pop(choice % len(self.running))

    def settle(self, call: Callable[[], object], plan: list[str]) -> None:
        self.executor.plan.extend(plan)
        try:
            call()
        except BrokerConnectionError:
            self.unsettled.append(call)
        self.executor.plan.clear()


@pytest.mark.slow
@pytest.mark.timeout(300)  # a failure is made small before it is shown
def test_what_is_settled_is_settled_once_whatever_gets_lost(
    server: Server, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dramatiq_streams.outages.LONGEST_PAUSE_SECONDS", 0.0)
    numbers = itertools.count()

    def machine() -> SettlementMachine:
        return SettlementMachine(server.url, f"{namespace}:{next(numbers)}")

    options = settings(max_examples=120, stateful_step_count=30)
    run_state_machine_as_test(machine, settings=options)  # type: ignore[arg-type]


def test_what_was_read_before_a_lane_was_found_missing_is_given_back(
    server: Server, namespace: str
) -> None:
    machine = SettlementMachine(server.url, namespace)
    machine.enqueue(1, 1)
    machine.take_a_message([], is_worker=False)
    machine.acknowledge(0, [])

    machine.lose_an_empty_lane(3)
    machine.enqueue(1, 2)

    # Both come, to the same consumer, and neither is counted as delivered before.
    machine.teardown()
    assert machine.delivered == machine.expected
