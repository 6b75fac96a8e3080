"""How much room there is for more, who waits for it, and what is beyond it."""

import threading

import pytest

from dramatiq_streams.holdings import Holdings
from dramatiq_streams.messages import Entry
from dramatiq_streams.pacing import Crew, Pace
from tests.support.waiting import wait_until
from tests.unit.holding import OTHER, OWNER, entries, held_by, in_thread, join


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
