import itertools

import pytest

from dramatiq_streams.pacing import READS, REFILL_MS, SHORTEST_INTERVAL_MS, Crew, Pace
from dramatiq_streams.spreading import LONGEST_SPACE_MS, SPACE

THREADS = 8
PREFETCH = 16


class Work:
    """A queue whose messages take turns of some milliseconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, threads: int = THREADS) -> None:
        self.now_ms = 1_000_000.0
        self.threads = threads
        monkeypatch.setattr("dramatiq_streams.clock.monotonic_ms", lambda: self.now_ms)
        self.pace = Pace(Crew(threads))

    def limit(self, held: int = THREADS) -> int:
        return self.pace.limit(PREFETCH, held=held)

    def done_every(self, milliseconds: float, count: int = 500) -> int:
        self.pace.note_taken(was_idle=True)
        for _ in range(count):
            self.now_ms += milliseconds
            self.pace.note_done(self.now_ms - milliseconds * THREADS)
        return self.limit()

    def have_read(self, milliseconds: float, *, count: int = READS) -> None:
        """Reads have taken so long, and longer on a busy machine or server."""
        for wait_ms in itertools.islice(itertools.cycle((40, 0, 90)), count):
            self.pace.note_read(milliseconds + wait_ms)

    def done_together(self, milliseconds: float, *, rounds: int = 3) -> None:
        """All threads come free every so many milliseconds, and begin at once."""
        for _ in range(rounds):
            self.pace.note_taken(was_idle=False)
            taken_at_ms = self.now_ms
            self.now_ms += milliseconds
            for _ in range(self.threads):
                self.now_ms += 0.1
                self.pace.note_done(taken_at_ms)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


def test_nothing_is_known_at_first_so_nothing_is_fetched_ahead(work: Work) -> None:
    assert work.limit() == THREADS


@pytest.mark.parametrize(
    ("task_ms", "ahead"), [(60_000, 0), (50, 0), (16, 4), (4, 19), (1, 79), (0.5, 99)]
)
def test_less_is_fetched_ahead_the_longer_tasks_take(
    work: Work, task_ms: float, ahead: int
) -> None:
    assert work.done_every(task_ms / THREADS) == pytest.approx(THREADS + ahead, abs=1)


def test_no_task_is_so_short_that_more_is_fetched(work: Work) -> None:
    assert work.done_every(0.01, count=5_000) == THREADS + REFILL_MS / SHORTEST_INTERVAL_MS - 1


def test_quick_tasks_are_noticed_within_a_window_after_slow_ones(work: Work) -> None:
    work.done_every(60_000, count=3)

    assert work.done_every(0.2, count=201) == pytest.approx(THREADS + 49, abs=1)


def test_slow_tasks_are_noticed_before_one_of_them_is_done(work: Work) -> None:
    assert work.done_every(0.2) == pytest.approx(THREADS + 49, abs=1)

    work.now_ms += 100

    assert work.limit() == THREADS


def test_rest_does_not_count_as_slow_work(work: Work) -> None:
    work.done_every(0.2)
    work.now_ms += 60_000
    work.pace.note_taken(was_idle=True)

    assert work.limit() == pytest.approx(THREADS + 49, abs=1)


@pytest.mark.parametrize(
    ("task_ms", "read_ms", "ahead"),
    [
        (50, 0.5, 0),  # a server on this machine
        (50, 3, 1),
        (50, 10, 4),
        (50, 30, 10),
        (500, 10, 0),
        (500, 30, 1),
        (60_000, 200, 0),
        (1, 0.5, 79),
        (1, 10, 160),
    ],
)
def test_more_is_fetched_ahead_the_farther_away_the_server_is(
    work: Work, task_ms: float, read_ms: float, ahead: int
) -> None:
    work.done_every(task_ms / THREADS)
    work.have_read(read_ms)

    assert work.limit() == THREADS + ahead


def test_a_few_slow_reads_do_not_make_a_server_far_away(work: Work) -> None:
    work.done_every(50 / THREADS)
    work.have_read(30, count=READS - 1)

    assert work.limit() == THREADS


def test_without_a_worker_or_with_a_prefetch_of_its_own_nothing_else_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(monkeypatch, threads=0)

    assert work.done_every(60_000) == PREFETCH
    assert work.done_every(0.0) == PREFETCH


def test_threads_that_come_free_at_once_begin_one_after_the_other(work: Work) -> None:
    work.done_together(50)
    held, begun = 0, [work.now_ms]
    work.pace.note_taken(was_idle=True)
    held += 1

    while held < THREADS:
        assert work.limit(held) == held
        assert 0 < work.pace.space_ms() <= LONGEST_SPACE_MS
        work.now_ms += work.pace.space_ms()
        assert work.limit(held) == held + 1
        held += 1
        work.pace.note_taken(was_idle=False)
        begun.append(work.now_ms)

    # The last one begins before the first one ends.
    assert begun[-1] - begun[0] == pytest.approx(SPACE * 50 * (THREADS - 1) / THREADS, rel=0.1)
    assert work.limit(THREADS) == THREADS


def test_nobody_waits_long_for_the_sake_of_others_however_long_tasks_take(work: Work) -> None:
    work.done_together(60_000)
    work.pace.note_taken(was_idle=True)

    assert work.pace.space_ms() == pytest.approx(LONGEST_SPACE_MS)
    work.now_ms += LONGEST_SPACE_MS
    assert work.limit(1) == 2


@pytest.mark.parametrize("task_ms", [0.1, 4])
def test_quick_tasks_are_not_spread(work: Work, task_ms: float) -> None:
    work.done_together(task_ms, rounds=100)
    work.pace.note_taken(was_idle=False)

    assert work.pace.limit(PREFETCH, held=0) > THREADS


def test_bursts_of_quick_tasks_are_not_spread(work: Work) -> None:
    for _ in range(5):
        work.pace.note_taken(was_idle=True)
        for _ in range(THREADS):
            work.now_ms += 0.1
            work.pace.note_done(work.now_ms - 0.5)
        work.now_ms += 1_000

    assert work.limit(0) >= THREADS


def test_tasks_that_end_one_by_one_are_not_spread(work: Work) -> None:
    work.done_every(50 / THREADS)
    work.pace.note_taken(was_idle=False)

    assert work.pace.space_ms() == 0
    assert work.limit(0) == THREADS


def test_threads_that_are_spread_are_left_alone_again(work: Work) -> None:
    work.done_together(50)
    work.done_every(50 / THREADS, count=3 * THREADS)
    work.pace.note_taken(was_idle=False)

    assert work.limit(0) == THREADS
    assert work.pace.space_ms() == 0


def test_nothing_is_spread_when_there_was_less_to_fetch_than_could_be_held(work: Work) -> None:
    work.done_together(50)
    work.pace.note_dry()
    work.pace.note_taken(was_idle=False)

    assert work.limit(0) == THREADS
    assert work.pace.space_ms() == 0


def test_many_threads_are_spread_within_a_tenth_of_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(monkeypatch, threads=64)
    work.done_together(900)
    work.pace.note_taken(was_idle=False)

    assert 0 < work.pace.space_ms() <= 100 / 64


def test_nothing_is_spread_by_reads_that_take_longer_than_the_space(work: Work) -> None:
    work.pace.note_read(30)
    work.done_together(50)
    work.pace.note_taken(was_idle=False)

    assert work.pace.space_ms() == 0


def test_few_threads_are_not_spread_since_they_come_free_at_once_by_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(monkeypatch, threads=4)
    for task_ms in (50, 60, 40, 50, 60):
        work.done_together(task_ms, rounds=1)
    work.pace.note_taken(was_idle=False)

    assert work.limit(0) == 4


#: When threads come free in a round of 50 ms: half of them soon after the other half.
UNEVEN = (0, 2, 4, 6, 12, 14, 16, 18)
EVEN = tuple(range(0, 50, 6))[:THREADS]


@pytest.mark.parametrize(
    ("free_at_ms", "longer_ms", "are_spread"),
    [(UNEVEN, 0, True), (UNEVEN, 10, False), (EVEN, 0, False), (EVEN, 10, False)],
)
def test_threads_that_have_come_close_are_spread_where_tasks_take_equally_long(
    work: Work, free_at_ms: tuple[int, ...], longer_ms: float, are_spread: bool
) -> None:
    work.pace.note_taken(was_idle=True)
    begun_ms = work.now_ms
    for number in range(6):
        for thread, free_ms in enumerate(free_at_ms):
            work.now_ms = begun_ms + 50 * number + free_ms
            work.pace.note_done(work.now_ms - 50 - longer_ms * (thread % 2))
    work.pace.note_taken(was_idle=False)

    assert (work.pace.space_ms() > 0) == are_spread


@pytest.mark.parametrize(
    ("round_ms", "behind", "are_spread"), [(50, UNEVEN[:1], True), (250, UNEVEN * 4, False)]
)
def test_only_few_quick_messages_in_between_let_threads_be_spread(
    work: Work, round_ms: float, behind: tuple[int, ...], are_spread: bool
) -> None:
    work.pace.note_taken(was_idle=True)
    begun_ms = work.now_ms
    for number in range(6):
        for free_ms in UNEVEN:
            work.now_ms = begun_ms + (number + free_ms / 50) * round_ms
            work.pace.note_done(work.now_ms - round_ms)
            for _ in range(behind.count(free_ms)):
                work.pace.note_done(work.now_ms - 1)
    work.pace.note_taken(was_idle=False)

    assert (work.pace.space_ms() > 0) == are_spread


def test_quick_messages_after_long_ones_are_soon_spread_no_more(work: Work) -> None:
    work.done_together(1_000)
    begun_ms = work.now_ms

    while work.limit(1) < THREADS:  # another thread is still at work
        work.pace.note_taken(was_idle=False)
        work.now_ms += 1
        work.pace.note_done(work.now_ms - 1)
        work.now_ms += work.pace.space_ms()

    assert work.now_ms - begun_ms < 500
