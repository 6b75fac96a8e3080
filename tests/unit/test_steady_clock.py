import logging

import pytest

from dramatiq_streams.steady_clock import ANY_TIME_MS, SteadyClock

TOLERANCE_MS = 30_000


class Clocks:
    """The server's clock and ours, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ours_ms = 1_000_000.0
        self.servers_ms = 1_700_000_000_000.0
        self.steady = SteadyClock()
        monkeypatch.setattr("dramatiq_streams.clock.monotonic_ms", lambda: self.ours_ms)

    def pass_by(self, milliseconds: float) -> None:
        self.ours_ms += milliseconds
        self.servers_ms += milliseconds

    def ask(self, *, request_ms: float = 1, reply_ms: float = 1) -> bool:
        """Ask the server what time it is; returns whether it would recover leases."""
        latest_ms = self.steady.latest_ms(tolerance_ms=TOLERANCE_MS)
        sent_ms = self.ours_ms
        self.pass_by(request_ms)
        shown_ms = int(self.servers_ms)
        self.pass_by(reply_ms)
        self.steady.note(shown_ms, sent_ms=sent_ms, tolerance_ms=TOLERANCE_MS)
        return shown_ms <= latest_ms


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_nothing_speaks_against_the_first_time_that_a_server_shows(clocks: Clocks) -> None:
    assert clocks.steady.latest_ms(tolerance_ms=TOLERANCE_MS) == ANY_TIME_MS
    assert clocks.ask()


def test_clock_that_goes_on_is_trusted(clocks: Clocks) -> None:
    for _ in range(100):
        clocks.pass_by(1_600)
        assert clocks.ask()


def test_clock_set_forward_is_distrusted_until_leases_could_be_extended(
    clocks: Clocks, caplog: pytest.LogCaptureFixture
) -> None:
    clocks.ask()
    clocks.servers_ms += 3_600_000

    assert not clocks.ask()
    clocks.pass_by(TOLERANCE_MS - 100)
    assert not clocks.ask()
    clocks.pass_by(100)
    assert clocks.ask()

    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "3600.0 seconds" in record.getMessage()


@pytest.mark.parametrize("slow", ["request_ms", "reply_ms"])
def test_slow_network_is_not_taken_for_a_clock_that_was_set(
    clocks: Clocks, slow: str, caplog: pytest.LogCaptureFixture
) -> None:
    clocks.ask()

    clocks.ask(**{slow: 10 * TOLERANCE_MS})
    clocks.pass_by(1_600)
    assert clocks.ask()

    assert caplog.records == []


def test_what_was_sent_before_a_server_hung_recovers_nothing_after_it(clocks: Clocks) -> None:
    clocks.ask()

    assert not clocks.ask(request_ms=2 * TOLERANCE_MS)
    assert clocks.ask()


def test_clock_set_back_is_no_reason_to_wait(clocks: Clocks) -> None:
    clocks.ask()
    clocks.servers_ms -= 3_600_000

    assert clocks.ask()
    assert clocks.ask()
