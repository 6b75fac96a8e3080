import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from dramatiq_streams.holdings import ACK_LIMIT, Holdings
from dramatiq_streams.messages import Entry
from dramatiq_streams.pacing import Crew, Pace
from tests.support.waiting import wait_until

OWNER, OTHER = "a consumer", "another consumer"


def entries(count: int) -> list[Entry]:
    return [Entry(1, f"{number}-0", 1, b"") for number in range(1, count + 1)]


def held_by(owner: str, *found: Entry) -> Holdings:
    holdings = Holdings()
    holdings.add(found, owner=owner)
    return holdings


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def join(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


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


def test_room_is_counted_for_each_consumer() -> None:
    one, two, three = entries(3)
    holdings = held_by(OWNER, one)
    holdings.add([two, three], owner=OTHER)

    assert holdings.room(5, owner=OWNER) == 4
    assert holdings.room(5, owner=OTHER) == 3


def test_what_an_earlier_consumer_left_takes_room_from_the_next() -> None:
    one, two = entries(2)
    holdings = held_by(OWNER, one, two)

    holdings.disown(OWNER)
    holdings.drop([one])

    assert holdings.room(5, owner=OTHER) == 4
    assert holdings.held() == [two]


def test_disowning_leaves_the_entries_of_others_alone() -> None:
    one, two = entries(2)
    holdings = held_by(OWNER, one)
    holdings.add([two], owner=OTHER)

    holdings.disown(OWNER)

    assert holdings.room(5, owner=OTHER) == 3


def test_ack_that_waits_makes_room_already_and_is_still_held() -> None:
    [one] = entries(1)
    holdings = held_by(OWNER, one)

    holdings.acknowledge(one)

    assert holdings.room(1, owner=OWNER) == 1
    assert holdings.held() == [one]
    assert holdings.has_acks


def test_ack_makes_its_room_once() -> None:
    [one] = entries(1)
    holdings = held_by(OWNER, one)
    holdings.acknowledge(one)

    holdings.drop(holdings.take_acks())

    assert holdings.room(1, owner=OWNER) == 1
    assert not holdings.has_acks


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


def test_waiting_for_room_ends_with_an_ack() -> None:
    [one] = entries(1)
    holdings = held_by(OWNER, one)
    has_room: list[bool] = []
    waiter = in_thread(
        lambda: has_room.append(holdings.wait_for_room(1, owner=OWNER, timeout_ms=10_000))
    )

    holdings.acknowledge(one)

    join([waiter])
    assert has_room == [True]


@pytest.mark.parametrize("timeout_ms", [-5, 0, 20])
def test_waiting_for_room_ends_without_any(timeout_ms: float) -> None:
    [one] = entries(1)
    holdings = held_by(OWNER, one)

    assert not holdings.wait_for_room(1, owner=OWNER, timeout_ms=timeout_ms)


def test_latest_of_what_is_held_beyond_the_limit_and_has_not_started_is_withdrawn() -> None:
    one, two, three, four, five = found = entries(5)
    holdings = held_by(OWNER, *found)
    one.start()
    four.start()
    five.is_last = True  # and counted as begun

    assert holdings.withdraw(4, owner=OWNER) == [three]
    assert holdings.withdraw(1, owner=OWNER) == [two]

    assert [each.is_settled for each in found] == [False, True, True, False, False]
    assert not three.start()


def test_nothing_is_withdrawn_within_the_limit_or_from_others() -> None:
    found = entries(3)
    holdings = held_by(OWNER, *found)

    assert holdings.withdraw(3, owner=OWNER) == []
    assert holdings.withdraw(0, owner=OTHER) == []
    assert all(each.start() for each in found)


def test_of_starting_and_withdrawing_at_once_one_succeeds() -> None:
    found = entries(300)
    holdings = held_by(OWNER, *found)
    started: list[Entry] = []
    withdrawn: list[Entry] = []

    join(
        [
            in_thread(lambda: started.extend(each for each in found if each.start())),
            in_thread(lambda: withdrawn.extend(holdings.withdraw(0, owner=OWNER))),
        ]
    )

    assert not set(started) & set(withdrawn)
    assert set(started) | set(withdrawn) == set(found)


class Watched(Pace):
    """A pace that notes how often anybody has looked for room."""

    def __init__(self) -> None:
        super().__init__(Crew())
        self.looks: list[int] = []

    def limit(self, prefetch: int, *, held: int) -> int:
        self.looks.append(held)
        return super().limit(prefetch, held=held)


@pytest.fixture
def pace() -> Watched:
    return Watched()


def wait_in_thread(holdings: Holdings, pace: Watched) -> threading.Thread:
    """Wait for room for one message."""
    holdings._pace = pace
    waiter = in_thread(lambda: holdings.wait_for_room(1, owner=OWNER, timeout_ms=10_000))
    wait_until(lambda: holdings._awaited)
    return waiter


def test_nobody_is_woken_before_there_is_room(pace: Watched) -> None:
    one, two = entries(2)
    holdings = held_by(OWNER, one, two)
    waiter = wait_in_thread(holdings, pace)

    holdings.drop([one])
    assert waiter.is_alive()
    holdings.drop([two])

    join([waiter])


def test_who_is_woken_is_not_looked_after_again_before_it_runs(pace: Watched) -> None:
    found = entries(100)
    holdings = held_by(OTHER, *found)
    holdings.add(entries(1), owner=OWNER)
    waiter = wait_in_thread(holdings, pace)

    with holdings._lock:  # so that it cannot run
        looks = len(pace.looks)
        for each in found:
            holdings.acknowledge(each)
        assert len(pace.looks) == looks + 1

    join([waiter])


def test_who_is_woken_and_finds_nothing_waits_on(pace: Watched) -> None:
    one, two = entries(2)
    holdings = held_by(OWNER, one)
    waiter = wait_in_thread(holdings, pace)

    with holdings._lock:  # so that it comes too late
        holdings.drop([one])
        holdings.add([two], owner=OWNER)
    wait_until(lambda: holdings._awaited)
    assert waiter.is_alive()
    holdings.drop([two])

    join([waiter])


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
