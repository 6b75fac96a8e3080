import logging
import threading

import pytest
from dramatiq.errors import ConnectionFailed

from dramatiq_streams.outages import Outages, Patience

GONE = ConnectionFailed("gone")


@pytest.fixture
def outages() -> Outages:
    made = Outages()
    made.are_ridden_out = True
    return made


def interrupted() -> threading.Event:
    """Ends every pause at once."""
    event = threading.Event()
    event.set()
    return event


def test_first_failure_is_no_outage_and_the_second_begins_one(outages: Outages) -> None:
    ride = outages.ride("read", interrupted())

    ride.endure(GONE)
    assert not outages.is_on
    ride.endure(GONE)

    assert outages.is_on


def test_outage_is_over_when_everything_that_failed_has_succeeded(
    outages: Outages, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for deed in ("read", "extend", "read"):
        outages.note_failure(deed, GONE)

    outages.note_success("read")
    assert outages.is_on
    outages.note_success("extend")

    assert not outages.is_on
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "Cannot read now" in caplog.text
    assert "Can extend again" in caplog.text


def test_success_of_a_successor_ends_what_its_predecessor_has_begun(outages: Outages) -> None:
    before = outages.ride("read", interrupted())
    for _ in range(3):
        before.endure(GONE)

    outages.ride("read", interrupted()).succeed()

    assert not outages.is_on


def test_without_a_worker_the_error_goes_to_the_caller() -> None:
    ride = Outages().ride("read", interrupted())

    with pytest.raises(ConnectionFailed):
        ride.endure(GONE)


def test_process_that_stops_asks_a_silent_server_nothing_until_something_succeeds(
    outages: Outages,
) -> None:
    patience = Patience(outages, interrupted())
    patience.check()

    patience.note_silence()
    with pytest.raises(ConnectionFailed, match="does not answer"):
        patience.check()
    outages.note_success("extend leases")

    patience.check()


def test_process_that_goes_on_asks_a_silent_server_again(outages: Outages) -> None:
    patience = Patience(outages, threading.Event())

    patience.note_silence()

    patience.check()
    assert not patience.is_short
    assert outages.is_on
