"""One queue, three consumers, any sequence of what can happen: it is always as the model says."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dramatiq_streams.dead_letters import Reason
from dramatiq_streams.keys import RELEASED
from dramatiq_streams.messages import Entry, Recovered, RetryHandOver
from tests.properties.queue_model import Item, QueueModel
from tests.properties.queue_under_test import LANES, QUEUE, QueueUnderTest, Rooms
from tests.support.servers import Server

MAX_DELIVERIES = 3
FAR_MS = 3_600_000
LEASE_MS = 60_000

consumers = st.integers(0, 2)
lanes = st.integers(1, 3)
#: Even numbers pick among what is held, odd ones also among what is not held any more.
picks = st.integers(0, 999)


class Never:
    """An alarm that does not ring."""

    def seconds_left(self) -> float:
        return 60.0

    def ring(self) -> None:
        raise AssertionError("rang")


def holds_something(machine: QueueMachine) -> bool:
    """Whether any consumer knows of a delivery that it holds."""
    return any(map(machine.held, range(3)))


class QueueMachine(RuleBasedStateMachine):
    """Does each thing to the queue and to the model, and compares them."""

    def __init__(self, url: str, namespace: str) -> None:
        super().__init__()
        self.queue = QueueUnderTest(url, namespace)
        self.model = QueueModel.empty(len(LANES.names))
        self.rooms = [self.queue.rooms(f"worker{number}") for number in range(3)]
        self.numbers = itertools.count(1)
        #: All deliveries that each consumer has ever heard of.
        self.known: list[list[Entry]] = [[] for _ in self.rooms]
        #: Consumers that may hold what they never heard of.
        self.lost_replies: set[int] = set()

    def teardown(self) -> None:
        self.queue.close()

    @rule(lane=lanes, count=st.integers(1, 4))
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
        number=consumers,
        budget=st.integers(0, 6) | st.just(6),
        shares=st.tuples(*[st.integers(0, 3)] * 3),
        ack_picks=st.lists(picks, max_size=3),
        is_reply_lost=st.sampled_from([False, False, False, True]),
    )
    def read(
        self,
        number: int,
        budget: int,
        shares: tuple[int, ...],
        ack_picks: list[int],
        is_reply_lost: bool,
    ) -> None:
        rooms, acks = self.rooms[number], self.entries(number, ack_picks)
        reading = rooms.queues.read(QUEUE, budget, shares=shares, acks=acks)
        refused = self.model.acknowledge(rooms.consumer, acks)
        forwarded = self.model.forward(self.queue.now_ms())
        expected = self.model.read(rooms.consumer, budget, shares)
        assert reading.refused == refused
        assert reading.forwarded == forwarded
        assert (reading.next_due_ms is None) == (not self.model.delayed)
        self.compare_delivered(number, reading.entries, expected, is_reply_lost=is_reply_lost)

    @precondition(lambda self: self.model.has_new)
    @rule(number=consumers)
    def read_blocking(self, number: int) -> None:
        rooms = self.rooms[number]
        blocked = rooms.queues.read_blocking(QUEUE, 10_000, alarm=Never())
        expected = self.model.read_blocking(rooms.consumer)
        assert rooms.queues.acknowledge(QUEUE, blocked.wakes) == []
        assert len(blocked.wakes) <= 1
        self.compare_delivered(number, blocked.entries, expected, is_reply_lost=False)

    def compare_delivered(
        self,
        number: int,
        entries: list[Entry],
        expected: list[tuple[int, Item]],
        *,
        is_reply_lost: bool,
    ) -> None:
        """Compare a reply; its consumer hears of it unless it was lost on its way."""
        assert [(entry.lane, entry.body.decode(), entry.deliveries) for entry in entries] == [
            (lane, item.body, item.deliveries) for lane, item in expected
        ]
        for entry, (_, item) in zip(entries, expected, strict=True):
            assert item.entry_id in ("", entry.entry_id)
            item.entry_id = entry.entry_id
        if is_reply_lost:
            self.lost_replies.add(number)
        else:
            self.known[number] += entries

    @precondition(holds_something)
    @rule(number=consumers, batch=st.lists(picks, min_size=1, max_size=4))
    def acknowledge(self, number: int, batch: list[int]) -> None:
        number, rooms = self.holder(number)
        acks = self.entries(number, batch)
        refused = rooms.queues.acknowledge(QUEUE, acks)
        assert refused == self.model.acknowledge(rooms.consumer, acks)

    @precondition(holds_something)
    @rule(number=consumers, pick=picks, reason=st.sampled_from(Reason), has_body=st.booleans())
    def reject(self, number: int, pick: int, reason: Reason, has_body: bool) -> None:
        number, rooms = self.holder(number)
        for entry in self.entries(number, [pick]):
            body = entry.body if has_body else None
            done = rooms.dead_letters.reject(
                QUEUE, entry, message=None, body=body, reason=reason, error="why"
            )
            assert done == self.model.reject(rooms.consumer, entry, reason.value)

    @precondition(holds_something)
    @rule(number=consumers, pick=picks, lane=lanes, delay_ms=st.sampled_from([None, 0, FAR_MS]))
    def hand_over(self, number: int, pick: int, lane: int, delay_ms: int | None) -> None:
        number, rooms = self.holder(number)
        for entry in self.entries(number, [pick]):
            retry = RetryHandOver(f"d{next(self.numbers)}", lane, entry.body, delay_ms)
            done = rooms.delays.hand_over(QUEUE, entry, retry)
            score = self.queue.client.zscore(self.queue.keys.delayed, retry.delivery_id)
            assert (score is not None) == (done and delay_ms is not None)
            eta = None if score is None else int(score)
            assert done == self.model.hand_over(rooms.consumer, entry, lane, retry.delivery_id, eta)

    @precondition(holds_something)
    @rule(number=consumers, batch=st.lists(picks, min_size=1, max_size=4))
    def release(self, number: int, batch: list[int]) -> None:
        number, rooms = self.holder(number)
        entries = self.entries(number, batch)
        count = rooms.queues.release(QUEUE, entries)
        assert count == self.model.release(rooms.consumer, entries)

    @precondition(lambda self: self.lost_replies)
    @rule()
    def release_unheld(self) -> None:
        number = self.lost_replies.pop()
        rooms, known = self.rooms[number], self.known[number]
        count = rooms.queues.release_unheld(QUEUE, known)
        assert count == self.model.release_unheld(rooms.consumer, known)

    @rule(number=st.integers(0, 3))
    def let_leases_expire(self, number: int) -> None:
        holder = [*(rooms.consumer for rooms in self.rooms), RELEASED][number]
        for lane, entry_id in self.model.expire(holder):
            self.queue.make_idle(lane, entry_id, holder)

    @precondition(holds_something)
    @rule(number=consumers, batch=st.lists(picks, max_size=4))
    def extend(self, number: int, batch: list[int]) -> None:
        number, rooms = self.holder(number)
        entries = self.entries(number, batch)
        assert rooms.leases.extend(QUEUE, entries) == self.model.extend(rooms.consumer, entries)

    @rule(number=consumers)
    def recover(self, number: int) -> None:
        recovered = self.rooms[number].recover(lease_ms=LEASE_MS, max_deliveries=MAX_DELIVERIES)
        assert recovered == Recovered(*self.model.recover(MAX_DELIVERIES))

    @precondition(holds_something)
    @rule(number=consumers, times=st.integers(1, MAX_DELIVERIES))
    def die_and_be_recovered(self, number: int, times: int) -> None:
        """What happens most, in one go: otherwise few examples would get there."""
        for _ in range(times):
            self.let_leases_expire(self.holder(number)[0] if holds_something(self) else number)
            self.recover(number)
            self.read(number, 6, (0, 0, 0), [], False)

    @precondition(lambda self: self.model.size >= 15)
    @rule()
    def purge(self) -> None:
        assert self.rooms[0].queues.purge(QUEUE).messages == self.model.purge()

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

    def held(self, number: int) -> list[Entry]:
        """The deliveries that a consumer knows of and still holds."""
        consumer = self.rooms[number].consumer
        return [entry for entry in self.known[number] if self.model.holds(consumer, entry)]

    def holder(self, number: int) -> tuple[int, Rooms]:
        """One of the consumers that hold something."""
        holders = [found for found in range(3) if self.held(found)]
        found = holders[number % len(holders)]
        return found, self.rooms[found]

    def entries(self, number: int, found: list[int]) -> list[Entry]:
        """The deliveries of a consumer that are picked, each once."""
        held, known = self.held(number), self.known[number]
        pools = [held if pick % 2 == 0 else known for pick in found]
        chosen = [
            pool[pick // 2 % len(pool)] for pick, pool in zip(found, pools, strict=True) if pool
        ]
        return list(dict.fromkeys(chosen))


@pytest.mark.slow
@pytest.mark.timeout(300)  # a failure is made small before it is shown
def test_queue_is_always_as_the_model_says(server: Server, namespace: str) -> None:
    numbers = itertools.count()

    def machine() -> QueueMachine:
        return QueueMachine(server.url, f"{namespace}:{next(numbers)}")

    options = settings(max_examples=120, stateful_step_count=40)
    run_state_machine_as_test(machine, settings=options)  # type: ignore[arg-type]
