from typing import Any

import dramatiq
import pytest
from dramatiq.middleware import Middleware

from dramatiq_streams import StreamsBroker
from dramatiq_streams.signals import Signals


class Noting(Middleware):
    """Notes its name when a message was acknowledged, and does nothing else."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes

    def after_ack(self, broker: dramatiq.Broker, message: Any) -> None:
        self.notes.append(self.name)


class Silent(Middleware):
    """Has no method of its own."""


class Foreign:
    """No subclass of dramatiq's: whatever it has is its own."""

    def after_ack(self, broker: dramatiq.Broker, message: Any) -> None:
        """Is called too."""


def test_acting_are_those_that_do_something_in_order() -> None:
    middleware: list[Any] = [Noting("a", []), Silent(), Foreign(), Noting("b", [])]

    acting = Signals().acting("after_ack", middleware)

    assert acting == [middleware[0], middleware[2], middleware[3]]
    assert Signals().acting("before_ack", middleware[:2]) == []


def test_changes_of_the_list_are_seen() -> None:
    signals, notes = Signals(), list[str]()
    middleware: list[Middleware] = [Noting("a", notes)]
    signals.acting("after_ack", middleware)

    middleware.insert(0, Noting("b", notes))
    added = signals.acting("after_ack", middleware)
    middleware.clear()

    assert [each.name for each in added if isinstance(each, Noting)] == ["b", "a"]
    assert signals.acting("after_ack", middleware) == []


def test_method_put_on_an_instance_is_called() -> None:
    silent = Silent()
    silent.after_ack = lambda broker, message: None  # type: ignore[method-assign]

    assert Signals().acting("after_ack", [silent]) == [silent]


def test_method_that_is_replaced_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    broker = StreamsBroker(middleware=[Noting("old", calls)])
    broker.emit_after("ack", None)

    monkeypatch.setattr(Noting, "after_ack", lambda *arguments: calls.append("new"))
    broker.emit_after("ack", None)

    assert calls == ["old", "new"]


def test_signal_that_middleware_does_not_know_is_none_of_its_business() -> None:
    assert Signals().acting("after_nothing_known", [Silent(), Noting("a", [])]) == []


def test_failure_in_a_hook_is_logged_with_its_traceback_and_the_others_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notes: list[str] = []

    class Failing(Middleware):
        def after_ack(self, broker: dramatiq.Broker, message: Any) -> None:
            raise ZeroDivisionError("a defect")

    broker = StreamsBroker(middleware=[Noting("first", notes), Failing(), Noting("last", notes)])

    broker.emit_after("ack", None)

    assert notes == ["last", "first"]
    assert "ZeroDivisionError: a defect" in caplog.text
    assert "Unexpected failure in after_ack" in caplog.text
