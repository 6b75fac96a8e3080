"""One queue, three consumers, any sequence of what can happen: it is always as the model says."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dramatiq_streams.dead_letters import Reason
from dramatiq_streams.keys import RELEASED
from dramatiq_streams.leases import Recovered
from dramatiq_streams.messages import Entry, RetryHandOver
from tests.properties.queue_model import Item, QueueModel
from tests.properties.queue_under_test import DEAD_TTL_MS, LANES, QUEUE, QueueUnderTest, Rooms
from tests.support.servers import Server

MAX_DELIVERIES = 3
FAR_MS = 3_600_000
LEASE_MS = 60_000

consumers = st.integers(0, 2)
lanes = st.integers(1, 3)
deliveries = Bundle("deliveries")


class Never:
    """An alarm that does not ring."""

    def seconds_left(self) -> float:
        return 60.0

    def ring(self) -> None:
        raise AssertionError("rang")


class QueueMachine(RuleBasedStateMachine):
    """Does each thing to the queue and to the model, and compares them."""

    def __init__(self, url: str, namespace: str) -> None:
        super().__init__()
        self.queue = QueueUnderTest(url, namespace)
        self.model = QueueModel.empty(len(LANES.names))
        self.rooms = [self.queue.rooms(f"worker{number}") for number in range(3)]
        self.numbers = itertools.count(1)
        self.known: dict[str, list[Entry]] = {rooms.consumer: [] for rooms in self.rooms}

    def teardown(self) -> None:
        self.queue.close()

    @rule(lane=lanes, count=st.integers(1, 3))
    def enqueue(self, lane: int, count: int) -> None:
        for _ in range(count):
            body = self.new_body()
            self.rooms[0].queues.enqueue(QUEUE, lane, body.encode())
            self.model.enqueue(lane, body)

    @rule(lane=lanes, delay_ms=st.sampled_from([0, FAR_MS]))
    def delay(self, lane: int, delay_ms: int) -> None:
        body, delivery_id = self.new_body(), f"d{next(self.numbers)}"
        eta = self.rooms[0].delays.add(
            QUEUE, lane, body.encode(), delivery_id=delivery_id, delay_ms=delay_ms
        )
        self.model.delay(lane, body, delivery_id, eta)

    @precondition(lambda self: self.model.delayed)
    @rule(choice=st.integers(0, 1000))
    def let_a_delay_pass(self, choice: int) -> None:
        names = sorted(self.model.delayed)
        name = names[choice % len(names)]
        lane, body, _ = self.model.delayed[name]
        eta = next(self.numbers)
        self.queue.make_due(name, eta)
        self.model.delayed[name] = (lane, body, eta)

    @rule(
        target=deliveries,
        number=consumers,
        budget=st.integers(0, 6),
        shares=st.tuples(*[st.integers(0, 3)] * 3),
        is_reply_lost=st.sampled_from([False, False, False, True]),
    )
    def read(self, number: int, budget: int, shares: tuple[int, ...], is_reply_lost: bool) -> Any:
        return self.read_with_acks(number, budget, shares, [], is_reply_lost)

    @rule(
        target=deliveries,
        number=consumers,
        budget=st.integers(0, 6),
        batch=st.lists(deliveries, max_size=4),
    )
    def read_carrying_acks(self, number: int, budget: int, batch: list[tuple[int, Entry]]) -> Any:
        acks = [entry for owner, entry in batch if owner == number]
        return self.read_with_acks(number, budget, (0, 1, 1), acks, False)

    def read_with_acks(
        self,
        number: int,
        budget: int,
        shares: tuple[int, ...],
        acks: list[Entry],
        is_reply_lost: bool,
    ) -> Any:
        rooms = self.rooms[number]
        reading = rooms.queues.read(QUEUE, budget, shares=shares, acks=acks)
        refused = self.model.acknowledge(rooms.consumer, acks)
        forwarded = self.model.forward(self.queue.now_ms())
        expected = self.model.read(rooms.consumer, budget, shares)
        assert reading.refused == refused
        assert reading.forwarded == forwarded
        assert (reading.next_due_ms is None) == (not self.model.delayed)
        return self.delivered(number, reading.entries, expected, is_reply_lost)

    @precondition(lambda self: self.model.has_new)
    @rule(target=deliveries, number=consumers)
    def read_blocking(self, number: int) -> Any:
        rooms = self.rooms[number]
        blocked = rooms.queues.read_blocking(QUEUE, 10_000, alarm=Never())
        expected = self.model.read_blocking(rooms.consumer)
        assert rooms.queues.acknowledge(QUEUE, blocked.wakes) == []
        assert len(blocked.wakes) <= 1
        return self.delivered(number, blocked.entries, expected, False)

    def delivered(
        self,
        number: int,
        entries: list[Entry],
        expected: list[tuple[int, Item]],
        is_reply_lost: bool,
    ) -> Any:
        """Compare a reply; it is known to the consumer unless it was lost on its way."""
        assert [(entry.lane, entry.body.decode(), entry.deliveries) for entry in entries] == [
            (lane, item.body, item.deliveries) for lane, item in expected
        ]
        for entry, (_, item) in zip(entries, expected, strict=True):
            assert item.entry_id in ("", entry.entry_id)
            item.entry_id = entry.entry_id
        if is_reply_lost:
            return multiple()
        self.known[self.rooms[number].consumer] += entries
        return multiple(*((number, entry) for entry in entries))

    @rule(batch=st.lists(deliveries, min_size=1, max_size=5), number=consumers)
    def acknowledge(self, batch: list[tuple[int, Entry]], number: int) -> None:
        rooms = self.rooms[number]
        acks = [entry for owner, entry in batch if owner == number]
        refused = rooms.queues.acknowledge(QUEUE, acks)
        assert refused == self.model.acknowledge(rooms.consumer, acks)

    @rule(delivery=deliveries)
    def acknowledge_one(self, delivery: tuple[int, Entry]) -> None:
        rooms, entry = self.owner(delivery)
        assert rooms.queues.acknowledge(QUEUE, [entry]) == self.model.acknowledge(
            rooms.consumer, [entry]
        )

    @rule(delivery=deliveries, reason=st.sampled_from(Reason), has_body=st.booleans())
    def reject(self, delivery: tuple[int, Entry], reason: Reason, has_body: bool) -> None:
        rooms, entry = self.owner(delivery)
        body = entry.body if has_body else None
        done = rooms.dead_letters.reject(QUEUE, entry, body=body, reason=reason, error="why")
        assert done == self.model.reject(rooms.consumer, entry, reason.value)

    @rule(delivery=deliveries, lane=lanes, delay_ms=st.sampled_from([None, 0, FAR_MS]))
    def hand_over(self, delivery: tuple[int, Entry], lane: int, delay_ms: int | None) -> None:
        rooms, entry = self.owner(delivery)
        retry = RetryHandOver(f"d{next(self.numbers)}", lane, entry.body, delay_ms)
        done = rooms.delays.hand_over(QUEUE, entry, retry)
        eta = self.queue.client.zscore(self.queue.keys.delayed, retry.delivery_id)
        assert (eta is not None) == (done and delay_ms is not None)
        assert done == self.model.hand_over(
            rooms.consumer, entry, lane, retry.delivery_id, None if eta is None else int(eta)
        )

    @rule(batch=st.lists(deliveries, min_size=1, max_size=5, unique=True), number=consumers)
    def release(self, batch: list[tuple[int, Entry]], number: int) -> None:
        rooms = self.rooms[number]
        entries = [entry for owner, entry in batch if owner == number]
        count = rooms.queues.release(QUEUE, entries)
        assert count == self.model.release(rooms.consumer, entries)

    @rule(number=consumers)
    def release_unheld(self, number: int) -> None:
        rooms = self.rooms[number]
        known = self.known[rooms.consumer]
        count = rooms.queues.release_unheld(QUEUE, known)
        assert count == self.model.release_unheld(rooms.consumer, known)

    @rule(number=st.integers(0, 3))
    def let_leases_expire(self, number: int) -> None:
        holder = [*self.known, RELEASED][number]
        for lane, entry_id in self.model.expire(holder):
            self.queue.make_idle(lane, entry_id, holder)

    @rule(number=consumers, batch=st.lists(deliveries, max_size=5))
    def extend(self, number: int, batch: list[tuple[int, Entry]]) -> None:
        rooms = self.rooms[number]
        entries = [entry for owner, entry in batch if owner == number]
        assert rooms.leases.extend(QUEUE, entries) == self.model.extend(rooms.consumer, entries)

    @rule(number=consumers)
    def recover(self, number: int) -> None:
        recovered = self.rooms[number].leases.recover(
            QUEUE, lease_ms=LEASE_MS, max_deliveries=MAX_DELIVERIES, dead_ttl_ms=DEAD_TTL_MS
        )
        assert recovered == Recovered(*self.model.recover(MAX_DELIVERIES))

    @precondition(lambda self: len(self.model.enqueued) % 7 == 6)
    @rule()
    def purge(self) -> None:
        assert self.rooms[0].queues.purge(QUEUE) == self.model.purge()

    @invariant()
    def server_holds_what_the_model_says(self) -> None:
        state = self.queue.state()
        assert state == self.model.state()
        assert self.rooms[0].queues.size(QUEUE) == self.model.size

    @invariant()
    def every_message_is_in_exactly_one_place(self) -> None:
        places = self.queue.state().bodies()
        places.update(self.model.done)
        assert sorted(places.elements()) == sorted(self.model.enqueued)

    def new_body(self) -> str:
        return f"message {next(self.numbers)}"

    def owner(self, delivery: tuple[int, Entry]) -> tuple[Rooms, Entry]:
        number, entry = delivery
        return self.rooms[number], entry


@pytest.mark.slow
def test_queue_is_always_as_the_model_says(server: Server, namespace: str) -> None:
    numbers = itertools.count()

    def machine() -> QueueMachine:
        return QueueMachine(server.url, f"{namespace}:{next(numbers)}")

    options = settings(max_examples=80, stateful_step_count=40)
    run_state_machine_as_test(machine, settings=options)  # type: ignore[arg-type]
