"""Unique keys, and anything that can happen to their messages: always as the model says."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

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

from dramatiq_streams.browsing import Browsing, State
from dramatiq_streams.cancellations import Cancellations
from dramatiq_streams.dead_letters import Outcome, Reason
from dramatiq_streams.letters import LetterFilter
from dramatiq_streams.messages import Entry, RetryHandOver
from dramatiq_streams.reservations import Reservations
from dramatiq_streams.scope import Scope
from dramatiq_streams.uniqueness import Reservation
from tests.properties.queue_under_test import LANES, QUEUE, QueueUnderTest
from tests.properties.unique_model import Item, Place, UniqueModel
from tests.support.servers import Server

MAX_DELIVERIES = 2
HOUR_MS = 3_600_000
CONSUMER = "worker"

keys = st.sampled_from(["a", "b:/"])
picks = st.integers(0, 999)


def has(*places: Place):
    """Whether there is a message in one of *places*."""
    return precondition(lambda self: self.model.at(*places))


class UniqueMachine(RuleBasedStateMachine):
    """Does each thing to a queue of unique messages and to the model, and compares them."""

    def __init__(self, url: str, namespace: str) -> None:
        super().__init__()
        self.queue = QueueUnderTest(url, namespace)
        self.rooms = self.queue.rooms(CONSUMER)
        scope = Scope(namespace, LANES, CONSUMER)
        self.reservations = Reservations(self.queue.executor, scope)
        self.browsing = Browsing(self.queue.executor, scope)
        self.cancellations = Cancellations(self.queue.executor, scope, self.browsing)
        self.model = UniqueModel()
        self.numbers = itertools.count(1)
        #: Of what is held: the token of each delivery.
        self.entries: dict[str, Entry] = {}
        #: What was sent last under each key, with its arguments, as long as that is remembered.
        self.last: dict[str, tuple[str, str, bool]] = {}

    def teardown(self) -> None:
        found = self.queue.keys
        self.queue.client.delete(found.unique, found.unique_messages, found.cancelled, found.counts)
        self.queue.close()

    @rule(key=keys, is_delayed=st.booleans())
    def send(self, key: str, is_delayed: bool) -> None:
        token, message_id = uuid.uuid4().hex, f"m:{next(self.numbers)}"
        expected = self.model.enqueue(token, key, message_id, is_delayed=is_delayed)
        assert self.enqueue(token, key, message_id, is_delayed) == expected
        if not expected:
            self.last[key] = token, message_id, is_delayed

    @precondition(lambda self: self.last)
    @rule(pick=picks)
    def send_again_what_was_sent_last(self, pick: int) -> None:
        """Its reply was lost; meanwhile anything may have become of it."""
        key = sorted(self.last)[pick % len(self.last)]
        token, message_id, is_delayed = self.last[key]
        assert self.enqueue(token, key, message_id, is_delayed) == ""

    @has(Place.HELD)
    @rule(pick=picks, is_delayed=st.booleans())
    def follow_itself(self, pick: int, is_delayed: bool) -> None:
        item, token = self.pick(pick, Place.HELD), uuid.uuid4().hex
        expected = self.model.enqueue(
            token, item.key, item.message_id, is_delayed=is_delayed, follows=True
        )
        found = self.enqueue(token, item.key, item.message_id, is_delayed, follows=True)
        assert found == expected
        if not expected:
            self.last[item.key] = token, item.message_id, is_delayed

    @rule(budget=st.integers(1, 4))
    def read(self, budget: int) -> None:
        reading = self.rooms.queues.read(QUEUE, budget, shares=(), acks=())
        assert len(reading.entries) <= budget
        for entry in reading.entries:
            token = entry.body.decode()
            [item] = [item for item in self.model.at(Place.WAITING) if item.token == token]
            item.place, item.deliveries = Place.HELD, entry.deliveries
            entry.has_unique_key, entry.unique_until = True, "done"
            self.entries[token] = entry

    @has(Place.DELAYED)
    @rule(pick=picks)
    def let_a_delay_pass(self, pick: int) -> None:
        item = self.pick(pick, Place.DELAYED)
        stored: dict[Any, Any] = self.queue.client.hgetall(self.queue.keys.delayed_messages)
        [name] = [name for name, packed in stored.items() if packed.endswith(item.token.encode())]
        self.queue.make_due(name.decode(), 1)
        assert self.rooms.queues.read(QUEUE, 0, shares=(), acks=()).forwarded == 1
        item.place = Place.WAITING

    @has(Place.HELD)
    @rule(pick=picks, with_read=st.booleans())
    def acknowledge(self, pick: int, with_read: bool) -> None:
        item = self.pick(pick, Place.HELD)
        acks = [self.entries[item.token]]
        if with_read:
            refused = self.rooms.queues.read(QUEUE, 0, shares=(), acks=acks).refused
        else:
            refused = self.rooms.queues.acknowledge(QUEUE, acks)
        assert refused == []
        self.model.end(item, Place.GONE)

    @has(Place.HELD)
    @rule(pick=picks)
    def start(self, pick: int) -> None:
        item = self.pick(pick, Place.HELD)
        self.reservations.start(QUEUE, self.entries[item.token])
        self.model.free(item)

    @has(Place.HELD)
    @rule(pick=picks, has_body=st.booleans())
    def reject(self, pick: int, has_body: bool) -> None:
        item = self.pick(pick, Place.HELD)
        body = item.token.encode() if has_body else None
        entry = self.entries[item.token]
        done = self.rooms.dead_letters.reject(
            QUEUE, entry, message=None, body=body, reason=Reason.FAILED, error=""
        )
        assert done
        self.model.end(item, Place.DEAD)

    @has(Place.HELD)
    @rule(pick=picks, is_delayed=st.booleans())
    def retry(self, pick: int, is_delayed: bool) -> None:
        item = self.pick(pick, Place.HELD)
        delay_ms = HOUR_MS if is_delayed else None
        retry = RetryHandOver(uuid.uuid4().hex, 1, item.token.encode(), delay_ms)
        assert self.rooms.delays.hand_over(QUEUE, self.entries[item.token], retry)
        item.place = Place.DELAYED if is_delayed else Place.WAITING
        item.deliveries = 0

    @has(Place.HELD)
    @rule(pick=picks)
    def die(self, pick: int) -> None:
        item = self.pick(pick, Place.HELD)
        entry = self.entries[item.token]
        self.queue.make_idle(entry.lane, entry.entry_id, CONSUMER)
        item.is_expired = True
        self.rooms.recover(lease_ms=60_000, max_deliveries=MAX_DELIVERIES)
        self.model.recover(MAX_DELIVERIES)

    @has(Place.DELAYED)
    @rule(pick=picks)
    def cancel_delayed(self, pick: int) -> None:
        item = self.pick(pick, Place.DELAYED)
        [stored] = [
            found
            for found in self.browsing.messages(QUEUE, State.DELAYED)
            if found.body.decode() == item.token
        ]
        assert self.cancellations.cancel(stored)
        self.model.end(item, Place.GONE)

    @has(Place.WAITING)
    @rule(pick=picks)
    def cancel_waiting(self, pick: int) -> None:
        """Its key is free at once; it is gone when somebody reads, which is now."""
        item = self.pick(pick, Place.WAITING)
        [stored] = [
            found
            for found in self.browsing.messages(QUEUE, State.READY)
            if found.body.decode() == item.token
        ]
        assert self.cancellations.cancel(stored)
        self.model.end(item, Place.GONE)
        assert self.server_keys() == self.model_keys()
        self.read(100)

    @has(Place.DEAD)
    @rule(pick=picks)
    def redrive(self, pick: int) -> None:
        item = self.pick(pick, Place.DEAD)
        [letter] = [
            found
            for found in self.rooms.dead_letters.letters(QUEUE, LetterFilter())
            if found.body.decode() == item.token
        ]
        done = self.rooms.dead_letters.redrive(letter)
        # What it is sent as is its old body: that goes on being its name here.
        expected = self.model.redrive(item, item.token, letter.letter_id)
        assert done.holder == (expected or None)
        assert (done.outcome is Outcome.HELD) == bool(expected)
        if not expected:
            self.last.pop(item.key, None)

    @precondition(lambda self: self.model.held)
    @rule(pick=picks)
    def let_a_reservation_end(self, pick: int) -> None:
        key = sorted(self.model.held)[pick % len(self.model.held)]
        self.queue.client.zadd(self.queue.keys.unique, {key: 1})
        del self.model.held[key]
        self.last.pop(key, None)

    @precondition(lambda self: self.model.held)
    @rule(pick=picks)
    def release(self, pick: int) -> None:
        key = sorted(self.model.held)[pick % len(self.model.held)]
        held = self.reservations.find(QUEUE, key)
        assert held is not None
        assert self.reservations.free(held)
        del self.model.held[key]
        self.last.pop(key, None)

    @rule()
    def expire(self) -> None:
        self.reservations.expire(QUEUE)

    @precondition(lambda self: len(self.model.at(Place.WAITING, Place.DELAYED)) > 6)
    @rule()
    def purge(self) -> None:
        self.rooms.queues.purge(QUEUE)
        for item in self.model.items:
            item.place = Place.GONE
        self.model.held.clear()
        self.last.clear()

    @invariant()
    def keys_are_with_whom_the_model_says(self) -> None:
        assert self.server_keys() == self.model_keys()

    @invariant()
    def every_message_is_where_the_model_says(self) -> None:
        state = self.queue.state()
        waiting_or_held = sorted(body for lane in state.lanes for body in lane)
        assert waiting_or_held == self.tokens(Place.WAITING, Place.HELD)
        assert sorted(body for body, _, _ in state.dead) == self.tokens(Place.DEAD)
        delayed = [stored.body.decode() for stored in self.browsing.messages(QUEUE, State.DELAYED)]
        assert sorted(delayed) == self.tokens(Place.DELAYED)

    def enqueue(
        self, token: str, key: str, message_id: str, is_delayed: bool, *, follows: bool = False
    ) -> str:
        """Enqueue a message whose body is its token."""
        reservation = Reservation(key, HOUR_MS, message_id, follows_itself=follows)
        delay_ms = HOUR_MS if is_delayed else None
        return self.reservations.enqueue(
            QUEUE, 1, token.encode(), reservation=reservation, delivery_id=token, delay_ms=delay_ms
        ).decode()

    def pick(self, number: int, place: Place) -> Item:
        """One of the messages in *place*."""
        found = self.model.at(place)
        return found[number % len(found)]

    def tokens(self, *places: Place) -> list[str]:
        """The bodies of what is in *places*."""
        return sorted(item.token for item in self.model.at(*places))

    def server_keys(self) -> dict[str, str]:
        """Who has which key, on the server."""
        return {held.key: held.message_id for held in self.reservations.held(QUEUE)}

    def model_keys(self) -> dict[str, str]:
        """Who has which key, in the model."""
        holders = {key: self.model.holder(key) for key in self.model.held}
        return {key: item.message_id for key, item in holders.items() if item is not None}


@pytest.mark.slow
@pytest.mark.timeout(300)  # a failure is made small before it is shown
def test_keys_are_always_as_the_model_says(server: Server, namespace: str) -> None:
    numbers = itertools.count()

    def machine() -> UniqueMachine:
        return UniqueMachine(server.url, f"{namespace}:{next(numbers)}")

    options = settings(max_examples=35, stateful_step_count=30)
    run_state_machine_as_test(machine, settings=options)  # type: ignore[arg-type]
