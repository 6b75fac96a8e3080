import pytest

from dramatiq_streams.pacing import Crew, Pace

THREADS = 8
PREFETCH = 16


class Work:
    """A queue whose messages take turns of some milliseconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, threads: int = THREADS) -> None:
        self.now_ms = 1_000_000.0
        monkeypatch.setattr("dramatiq_streams.clock.monotonic_ms", lambda: self.now_ms)
        self.pace = Pace(Crew(threads))

    def done_every(self, milliseconds: float, count: int = 200) -> int:
        for _ in range(count):
            self.now_ms += milliseconds
            self.pace.note_done()
        return self.pace.limit(PREFETCH)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


def test_nothing_is_known_at_first_so_nothing_is_fetched_ahead(work: Work) -> None:
    assert work.pace.limit(PREFETCH) == THREADS


@pytest.mark.parametrize(
    ("task_ms", "ahead"), [(60_000, 0), (50, 0), (16, 2), (4, 8), (1, 8), (0, 8)]
)
def test_less_is_fetched_ahead_the_longer_tasks_take(
    work: Work, task_ms: float, ahead: int
) -> None:
    assert work.done_every(task_ms / THREADS) == THREADS + ahead


def test_no_task_is_so_short_that_more_than_the_prefetch_is_held(work: Work) -> None:
    work.done_every(0.0)

    assert work.pace.limit(10) == 10
    assert work.pace.limit(1) == 1


def test_quick_tasks_are_noticed_within_a_hundred_after_a_rest(work: Work) -> None:
    work.done_every(60_000, count=3)

    assert work.done_every(0.1, count=100) == PREFETCH


def test_an_idle_consumer_may_take_a_message_of_each_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = Pace(Crew(threads=2, lanes=3))

    assert pace.limit(4) == 3
    assert pace.limit(2) == 2


def test_without_a_worker_or_with_a_prefetch_of_its_own_nothing_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(monkeypatch, threads=0)

    assert work.done_every(60_000) == PREFETCH
