import os
import threading
from contextlib import suppress
from pathlib import Path

from crawl_actors.lifeline import RunLifeline, _wait_for_end
from tests.support.waiting import wait_until


def test_workers_wait_while_the_run_holds_the_lifeline(tmp_path: Path) -> None:
    with RunLifeline(tmp_path / "lifeline") as lifeline:
        ended = _watch(lifeline, readers=3)

        assert not ended.wait(0.2)

    assert ended.wait(10)


def test_one_worker_of_several_is_chosen(tmp_path: Path) -> None:
    lifeline = RunLifeline(tmp_path / "lifeline")
    chosen: list[bool] = []
    ended = _watch(lifeline, readers=4, results=chosen)

    lifeline.close()

    assert ended.wait(10)
    assert sorted(chosen) == [False, False, False, True]


def test_run_that_is_gone_already_is_noticed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lifeline"
    RunLifeline(path).close()

    assert _wait_for_end(str(path)) is False


def test_closing_removes_the_pipe(tmp_path: Path) -> None:
    lifeline = RunLifeline(tmp_path / "lifeline")

    lifeline.close()
    lifeline.close()

    assert list(tmp_path.iterdir()) == []


def _watch(
    lifeline: RunLifeline, *, readers: int, results: list[bool] | None = None
) -> threading.Event:
    """Read in *readers* threads; the event is set when all have seen the end."""
    ended = threading.Event()
    answers: list[bool] = [] if results is None else results

    def read() -> None:
        answers.append(_wait_for_end(str(lifeline.path)))
        if len(answers) == readers:
            ended.set()

    for _ in range(readers):
        threading.Thread(target=read, daemon=True).start()
    # The run's own end, and one for each reader.
    wait_until(lambda: _times_open(lifeline.path) == readers + 1, message="every reader reads")
    return ended


def _times_open(path: Path) -> int:
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            count += os.readlink(descriptor) == str(path)
    return count
