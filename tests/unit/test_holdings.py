import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from dramatiq_streams.holdings import ACK_LIMIT, Holdings
from dramatiq_streams.messages import Entry
from tests.support.waiting import wait_until
from tests.unit.holding import OWNER, entries, held_by, in_thread, join


def test_what_is_added_is_held_until_it_is_dropped() -> None:
    one, two = entries(2)
    holdings = held_by(OWNER, one, two)

    holdings.drop([one])

    assert holdings.held() == [two]
    assert holdings.room(5, owner=OWNER) == 4


def test_dropping_what_is_not_held_changes_nothing() -> None:
    one, two = entries(2)
    holdings = held_by(OWNER, one)

    holdings.drop([two])
    holdings.drop([one])
    holdings.drop([one])

    assert holdings.held() == []
    assert holdings.room(5, owner=OWNER) == 5


def test_lost_entries_are_known_and_not_held() -> None:
    one, two = entries(2)
    holdings = held_by(OWNER, one, two)

    one.is_lost = True

    assert holdings.held() == [two]
    assert holdings.known() == [one, two]


def test_second_ack_of_an_entry_is_not_sent() -> None:
    [one] = entries(1)
    holdings = held_by(OWNER, one)
    holdings.acknowledge(one)

    has_to_send = holdings.acknowledge(one)

    assert not has_to_send
    assert holdings.take_acks() == [one]


def test_whoever_acks_sends_unless_a_read_is_to_come() -> None:
    one, two, three = entries(3)
    holdings = held_by(OWNER, one, two, three)

    alone = holdings.acknowledge(one)
    with holdings.carrying():
        carried = holdings.acknowledge(two)
    after = holdings.acknowledge(three)

    assert (alone, carried, after) == (True, False, True)


def test_blocked_consumer_carries_nothing() -> None:
    one, two = entries(2)
    holdings = held_by(OWNER, one, two)

    with holdings.carrying():
        is_paused = holdings.pause_carrying()
        blocked = holdings.acknowledge(one)
        holdings.take_acks()
        holdings.resume_carrying()
        carried = holdings.acknowledge(two)

    assert is_paused
    assert (blocked, carried) == (True, False)


def test_consumer_does_not_block_on_top_of_waiting_acks() -> None:
    one, two = entries(2)
    holdings = held_by(OWNER, one, two)

    with holdings.carrying():
        holdings.acknowledge(one)
        is_paused = holdings.pause_carrying()
        carried = holdings.acknowledge(two)

    assert not is_paused
    assert not carried


def test_acks_are_taken_oldest_first_and_so_many_at_once() -> None:
    found = entries(ACK_LIMIT + 3)
    holdings = held_by(OWNER, *found)
    for entry in found:
        holdings.acknowledge(entry)

    first, second, third = holdings.take_acks(), holdings.take_acks(), holdings.take_acks()

    assert first == found[:ACK_LIMIT]
    assert second == found[ACK_LIMIT:]
    assert third == []


def test_acks_put_back_keep_their_order_and_are_in_doubt() -> None:
    one, two, three = entries(3)
    holdings = held_by(OWNER, one, two, three)
    holdings.acknowledge(one)
    holdings.acknowledge(two)
    taken = holdings.take_acks()
    holdings.acknowledge(three)

    holdings.put_back(taken)

    assert holdings.take_acks() == [one, two, three]
    assert [entry.is_in_doubt for entry in (one, two, three)] == [True, True, False]


def test_abandoned_entry_is_no_longer_held_and_stays_known() -> None:
    [one] = entries(1)
    holdings = held_by(OWNER, one)

    holdings.abandon(one)

    assert holdings.held() == []
    assert holdings.known() == [one]
    assert holdings.room(1, owner=OWNER) == 1


def test_entry_is_known_at_every_moment_of_being_abandoned() -> None:
    class Watched(Holdings):
        def drop(self, entries: Iterable[Entry], *, are_done: bool = True) -> None:
            entries = list(entries)
            super().drop(entries, are_done=are_done)
            assert set(entries) <= set(self.known())

    [one] = entries(1)
    holdings = Watched()
    holdings.add([one], owner=OWNER)

    holdings.abandon(one)

    assert holdings.held() == []


def test_nothing_is_reconciled_while_a_read_is_under_way() -> None:
    holdings = Holdings()

    with holdings.reading(), holdings.reconciling() as is_alone:
        assert not is_alone

    with holdings.reconciling() as is_alone:
        assert is_alone


def test_only_one_reconciles_at_a_time() -> None:
    holdings = Holdings()

    with holdings.reconciling() as first, holdings.reconciling() as second:
        assert (first, second) == (True, False)
    with holdings.reconciling() as later:
        assert later


def test_read_waits_until_reconciling_is_over() -> None:
    holdings, order = Holdings(), list[str]()

    def read() -> None:
        with holdings.reading():
            order.append("read")

    with holdings.reconciling():
        reader = in_thread(read)
        wait_until(lambda: len(holdings._changed._waiters) == 1, message="the reader waits")  # type: ignore[attr-defined]
        order.append("reconciled")

    join([reader])
    assert order == ["reconciled", "read"]


def test_failure_inside_leaves_nothing_locked() -> None:
    holdings = Holdings()
    for context in (holdings.reading, holdings.reconciling, holdings.carrying):
        with pytest.raises(ZeroDivisionError), context():
            raise ZeroDivisionError

    [one] = entries(1)
    with holdings.reconciling() as is_alone:
        assert is_alone
    assert holdings.acknowledge(one)


def test_each_ack_of_many_threads_is_sent_exactly_once() -> None:
    found, sent = entries(2_000), list[Entry]()
    holdings = held_by(OWNER, *found)
    is_done = threading.Event()

    def acknowledge(entry: Entry) -> None:
        if holdings.acknowledge(entry):
            send()

    def send() -> None:
        acks = holdings.take_acks()
        sent.extend(acks)
        holdings.drop(acks)

    def consume() -> None:
        while not is_done.is_set():
            with holdings.carrying():
                send()
                if holdings.pause_carrying():
                    holdings.resume_carrying()
                send()

    consumer = in_thread(consume)
    with ThreadPoolExecutor(8) as workers:
        list(workers.map(acknowledge, found))
    is_done.set()
    join([consumer])

    send()
    assert len(sent) == len(set(sent)) == len(found)
    assert holdings.held() == []
    assert holdings.room(5, owner=OWNER) == 5
