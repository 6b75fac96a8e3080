import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from dramatiq_streams.isolation import Isolation
from dramatiq_streams.messages import Entry
from tests.support.waiting import wait_until

#: So long a test waits for what must not happen, and for what must.
SHORT_MS = 30.0
LONG_MS = 10_000.0


def innocent(number: int = 1) -> Entry:
    return Entry(1, f"{number}-0", 1, b"")


def suspect(number: int = 9) -> Entry:
    return Entry(1, f"{number}-0", 4, b"", is_last=True)


@pytest.fixture
def isolation() -> Isolation:
    return Isolation()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def admits(isolation: Isolation, entry: Entry) -> bool:
    return isolation.admit(entry)


def admits_later(isolation: Isolation, entry: Entry) -> bool:
    """As a consumer that stands by: waits for what is in the way, and then asks again."""
    if not isolation.admit(entry) and (suspect := isolation.suspect) is not None:
        isolation.wait(suspect, is_ours=suspect is entry, timeout_ms=LONG_MS)
    return isolation.admit(entry)


def waits(isolation: Isolation, entry: Entry, *, is_ours: bool) -> bool:
    """Whether waiting for *entry* takes all its time."""
    begun = time.monotonic()
    isolation.wait(entry, is_ours=is_ours, timeout_ms=SHORT_MS)
    return (time.monotonic() - begun) * 1000 >= SHORT_MS


def test_innocents_run_beside_each_other(isolation: Isolation) -> None:
    assert all(admits(isolation, innocent(number)) for number in range(100))


def test_suspect_runs_at_once_when_nothing_else_does(isolation: Isolation) -> None:
    assert admits(isolation, suspect())


def test_suspect_waits_for_what_runs(isolation: Isolation) -> None:
    admits(isolation, innocent())

    assert not admits(isolation, suspect())


def test_suspect_that_waited_runs_when_the_last_one_has_left(
    isolation: Isolation, threads: ThreadPoolExecutor
) -> None:
    running, waiting = [innocent(1), innocent(2)], suspect()
    for entry in running:
        admits(isolation, entry)
    admitted = threads.submit(admits_later, isolation, waiting)

    isolation.leave(running[0])
    isolation.leave(running[1])

    assert admitted.result(10)


def test_nothing_starts_while_a_suspect_waits_or_runs(isolation: Isolation) -> None:
    running, waiting, later = innocent(1), suspect(), innocent(2)
    admits(isolation, running)

    answers = [admits(isolation, waiting), admits(isolation, later)]
    isolation.leave(running)
    answers += [admits(isolation, waiting), admits(isolation, later)]
    isolation.leave(waiting)
    answers += [admits(isolation, later)]

    assert answers == [False, False, True, False, True]


def test_suspects_run_one_after_the_other(
    isolation: Isolation, threads: ThreadPoolExecutor
) -> None:
    first, second = suspect(1), suspect(2)
    admits(isolation, first)
    waiting = threads.submit(admits_later, isolation, second)

    isolation.leave(first)

    assert waiting.result(10)
    assert not admits(isolation, innocent())


def test_suspect_is_known_from_when_it_was_asked_for_until_it_has_left(
    isolation: Isolation,
) -> None:
    running, waiting = innocent(), suspect()
    admits(isolation, running)

    known = [isolation.suspect]
    for step in (isolation.admit, isolation.leave):
        step(waiting)
        known.append(isolation.suspect)

    assert known == [None, waiting, None]


def test_who_has_the_suspect_waits_until_it_may_start_and_all_others_until_it_has_left(
    isolation: Isolation,
) -> None:
    running, entry = innocent(), suspect()
    admits(isolation, running)
    admits(isolation, entry)

    before = waits(isolation, entry, is_ours=True), waits(isolation, entry, is_ours=False)
    isolation.leave(running)
    free = waits(isolation, entry, is_ours=True), waits(isolation, entry, is_ours=False)
    isolation.leave(entry)
    after = waits(isolation, entry, is_ours=True), waits(isolation, entry, is_ours=False)

    assert (before, free, after) == ((True, True), (False, True), (False, False))


def test_suspect_that_goes_before_it_has_run_holds_up_nobody(isolation: Isolation) -> None:
    running, waiting = innocent(1), suspect()
    admits(isolation, running)
    admits(isolation, waiting)

    isolation.leave(waiting)  # Its lease was lost, or its consumer was closed.

    assert admits(isolation, innocent(2))


def test_suspect_whose_start_failed_may_start_again(isolation: Isolation) -> None:
    entry = suspect()

    assert admits(isolation, entry)
    assert admits(isolation, entry)


def test_stranger_that_leaves_changes_nothing(isolation: Isolation) -> None:
    waiting = suspect()
    admits(isolation, innocent(1))
    admits(isolation, waiting)

    isolation.leave(innocent(2))

    assert not admits(isolation, innocent(3))


def test_crowd_of_threads_ends_and_no_suspect_ever_has_company(
    isolation: Isolation, threads: ThreadPoolExecutor
) -> None:
    lock, inside, company = threading.Lock(), [], []

    def run(entry: Entry) -> None:
        wait_until(lambda: isolation.admit(entry), timeout=20)
        with lock:
            inside.append(entry)
            if len(inside) > 1 and any(other.is_last for other in inside):
                company.append(entry)
        time.sleep(0.0005)  # so that they overlap
        with lock:
            inside.remove(entry)
        isolation.leave(entry)

    crowd = [suspect(number) if number % 5 == 0 else innocent(number) for number in range(200)]
    list(threads.map(run, crowd, timeout=30))

    assert company == []


def test_admission_costs_next_to_nothing_where_there_is_no_suspect(isolation: Isolation) -> None:
    entries = [innocent(number) for number in range(10_000)]

    begun = time.perf_counter()
    for entry in entries:
        isolation.admit(entry)
        isolation.leave(entry)
    each_us = (time.perf_counter() - begun) / len(entries) * 1_000_000

    # Some 2 us on an idle machine; a message takes more than 100.
    assert each_us < 100
