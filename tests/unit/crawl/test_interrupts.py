import signal
import sys
from collections.abc import Iterator

import pytest

from crawl_actors.cli.interrupts import interrupts_kept, raise_interrupted
from crawl_actors.running import Interrupted
from tests.support.waiting import wait_until


class Finalized:
    """Is interrupted, or fails, as it is finalized."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __del__(self) -> None:
        raise self.error


@pytest.fixture
def handled() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, raise_interrupted)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_interrupt_that_falls_into_a_finalizer_comes_again(handled: None) -> None:
    with interrupts_kept():
        Finalized(Interrupted(signal.SIGUSR1))
        with pytest.raises(Interrupted, match=str(int(signal.SIGUSR1))):
            wait_until(lambda: False, timeout=10)


def test_other_errors_of_finalizers_are_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(dropped.exc_value))
    error = ValueError("it fails")

    with interrupts_kept():
        Finalized(error)
    Finalized(error)

    assert told == [error, error]
