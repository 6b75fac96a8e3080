import logging
import threading
from collections.abc import Callable

import pytest
from dramatiq.errors import ConnectionClosed

from dramatiq_streams.errors import CommandFailed
from dramatiq_streams.maintenance import RETRY_MS, Duty, Maintenance
from dramatiq_streams.outages import Outages
from tests.support.waiting import wait_until


class FakeClock:
    """Milliseconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000.0

    def monotonic_ms(self) -> float:
        return self.now_ms

    def advance(self, milliseconds: float) -> None:
        self.now_ms += milliseconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    fake = FakeClock()
    monkeypatch.setattr("dramatiq_streams.clock.monotonic_ms", fake.monotonic_ms)
    return fake


class Done:
    """Remembers which duties were run, and does or raises what it is told after one."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.failures: dict[str, Exception] = {}
        self.afterwards: dict[str, Callable[[], None]] = {}

    def duty(self, name: str, interval_ms: float) -> Duty:
        def run() -> None:
            self.names.append(name)
            self.afterwards.get(name, lambda: None)()
            if name in self.failures:
                raise self.failures[name]

        return Duty(name, run, lambda: interval_ms)


def test_all_duties_run_at_once_in_their_order(clock: FakeClock) -> None:
    done = Done()
    maintenance = Maintenance(
        [done.duty("b", 100), done.duty("a", 300), done.duty("c", 200)], Outages()
    )

    wait_ms = maintenance.run_once()

    assert done.names == ["b", "a", "c"]
    assert wait_ms == 100


def test_each_duty_runs_again_after_its_own_interval(clock: FakeClock) -> None:
    done = Done()
    maintenance = Maintenance([done.duty("often", 100), done.duty("seldom", 250)], Outages())

    for _ in range(11):
        maintenance.run_once()
        clock.advance(50)

    assert done.names.count("often") == 6
    assert done.names.count("seldom") == 3


def test_wait_is_the_time_until_the_next_duty(clock: FakeClock) -> None:
    done = Done()
    maintenance = Maintenance([done.duty("often", 100), done.duty("seldom", 250)], Outages())
    maintenance.run_once()
    clock.advance(70)

    wait_ms = maintenance.run_once()

    assert done.names == ["often", "seldom"]
    assert wait_ms == 30


def test_interval_begins_when_a_duty_is_done(clock: FakeClock) -> None:
    done = Done()
    done.afterwards["slow"] = lambda: clock.advance(500)
    maintenance = Maintenance([done.duty("slow", 100)], Outages())

    wait_ms = maintenance.run_once()

    assert wait_ms == 100


def test_overdue_duty_leaves_a_pause_all_the_same(clock: FakeClock) -> None:
    done = Done()
    done.afterwards["slow"] = lambda: clock.advance(50)
    maintenance = Maintenance([done.duty("late", 0), done.duty("slow", 100)], Outages())

    wait_ms = maintenance.run_once()

    assert wait_ms == 1


def test_interval_is_asked_anew_each_time(clock: FakeClock) -> None:
    intervals = iter([100.0, 300.0])
    maintenance = Maintenance([Duty("one", lambda: None, lambda: next(intervals))], Outages())

    first = maintenance.run_once()
    clock.advance(100)
    second = maintenance.run_once()

    assert (first, second) == (100, 300)


@pytest.mark.parametrize("error", [ConnectionClosed("gone"), CommandFailed("no")])
@pytest.mark.parametrize(("interval_ms", "again_ms"), [(20_000, RETRY_MS), (300, 300)])
def test_failed_duty_is_tried_again_soon(
    clock: FakeClock, error: Exception, interval_ms: float, again_ms: float
) -> None:
    done = Done()
    done.failures["one"] = error
    maintenance = Maintenance([done.duty("one", interval_ms)], Outages())

    wait_ms = maintenance.run_once()

    assert wait_ms == again_ms


def test_one_failure_does_not_keep_the_other_duties_from_running(clock: FakeClock) -> None:
    done = Done()
    done.failures = {"a": ConnectionClosed("gone"), "b": ZeroDivisionError("a defect")}
    maintenance = Maintenance(
        [done.duty("a", 100), done.duty("b", 100), done.duty("c", 100)], Outages()
    )

    maintenance.run_once()

    assert done.names == ["a", "b", "c"]


def test_failure_and_recovery_are_logged_once(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    done = Done()
    done.failures = {"extend": ConnectionClosed("gone"), "recover": ConnectionClosed("gone")}
    maintenance = Maintenance([done.duty("extend", 100), done.duty("recover", 100)], Outages())

    for _ in range(5):
        maintenance.run_once()
        clock.advance(100)
    done.failures.clear()
    for _ in range(5):
        maintenance.run_once()
        clock.advance(100)

    logged = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert logged == [
        ("WARNING", "Cannot extend now; all is tried until it succeeds: gone"),
        ("INFO", "Can recover again, as all else, after 0.5 seconds."),
    ]


def test_second_failure_after_a_recovery_is_logged_again(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    done = Done()
    maintenance = Maintenance([done.duty("extend", 100)], Outages())

    for failing in (True, True, False, True, True):
        done.failures = {"extend": ConnectionClosed("gone")} if failing else {}
        maintenance.run_once()
        clock.advance(100)

    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2


def test_defect_is_logged_with_its_traceback_every_time(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    done = Done()
    done.failures = {"one": ZeroDivisionError("a defect")}
    maintenance = Maintenance([done.duty("one", 100)], Outages())

    maintenance.run_once()
    clock.advance(100)
    maintenance.run_once()

    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "ZeroDivisionError" in caplog.text
    assert "one" in caplog.records[0].getMessage()


def test_stopping_skips_the_duties_that_are_left(clock: FakeClock) -> None:
    done = Done()
    duties = [done.duty("a", 100), done.duty("b", 100)]
    maintenance = Maintenance([done.duty("first", 100), *duties], Outages())
    done.afterwards["first"] = maintenance.stop

    maintenance.run_once()

    assert done.names == ["first"]


def test_thread_runs_duties_until_it_is_stopped() -> None:
    done = Done()
    done.failures = {"one": ZeroDivisionError("a defect")}
    maintenance = Maintenance([done.duty("one", 5)], Outages())

    maintenance.start()
    wait_until(lambda: len(done.names) >= 3, message="three rounds")
    maintenance.stop()

    assert "dramatiq-streams-maintenance" not in {thread.name for thread in threading.enumerate()}


def test_stop_before_start_and_a_second_stop_do_nothing() -> None:
    maintenance = Maintenance([Done().duty("one", 100)], Outages())

    maintenance.stop()
    maintenance.stop()


def test_duty_may_stop_its_own_thread() -> None:
    done = Done()
    maintenance = Maintenance([done.duty("last", 1)], Outages())
    done.afterwards["last"] = maintenance.stop

    maintenance.start()
    wait_until(lambda: not maintenance._thread.is_alive(), message="the thread has ended")

    assert done.names == ["last"]


def test_what_the_server_refuses_is_told_once_and_is_no_outage(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    outages = Outages()
    done = Done()
    done.failures = {"expire": CommandFailed("WRONGTYPE")}
    maintenance = Maintenance([done.duty("expire", 100), done.duty("extend", 100)], outages)

    for _ in range(3):
        maintenance.run_once()
        clock.advance(100)
    assert not outages.is_on
    done.failures["extend"] = ConnectionClosed("gone")
    maintenance.run_once()

    assert outages.is_on
    assert [record.getMessage() for record in caplog.records] == [
        "Cannot expire, which is tried again: WRONGTYPE",
        "Cannot extend now; all is tried until it succeeds: gone",
    ]
