"""Queues are known to operators as soon as somebody uses them, and nobody pays for it twice."""

from typing import Any

import pytest
from dramatiq.errors import ConnectionClosed

from dramatiq_streams import CommandFailed, StreamsBroker
from dramatiq_streams.executor import Executor
from dramatiq_streams.keys import registry_key
from dramatiq_streams.registry import Registration, Registry
from tests.conftest import MakeBroker
from tests.contract.queue_state import new_message


class Refusing:
    """A server that refuses, or breaks, so many times."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.commands: list[Any] = []

    def execute(self, *command: Any) -> Any:
        self.commands.append(command)
        if self.errors:
            raise self.errors.pop(0)
        return 1


def registered(broker: StreamsBroker) -> list[Registration]:
    executor = Executor(broker.client.connection_pool)
    return Registry(executor, broker.namespace).queues()


def test_queue_is_registered_by_its_first_message(make_broker: MakeBroker) -> None:
    broker = make_broker(lanes=["a", "b"], lease=7_000)

    broker.enqueue(new_message(queue="mail"))
    broker.enqueue_many([new_message(queue="two"), new_message(queue="one")], delay=60_000)

    assert registered(broker) == [
        Registration(name, ("a", "b"), 7_000) for name in ("mail", "one", "two")
    ]


def test_queue_is_registered_by_its_first_consumer(broker: StreamsBroker) -> None:
    consumer = broker.consume("empty", timeout=50)
    assert next(consumer) is None
    consumer.close()

    assert [registration.queue_name for registration in registered(broker)] == ["empty"]


def test_only_the_first_message_of_a_process_pays(broker: StreamsBroker) -> None:
    broker.enqueue(new_message())
    broker.client.delete(registry_key(broker.namespace))

    broker.enqueue(new_message())

    assert registered(broker) == []


@pytest.mark.parametrize("error", [ConnectionClosed("gone"), CommandFailed("NOPERM")])
def test_failure_is_made_up_for_by_the_next_message(error: Exception) -> None:
    runs = Refusing(error)
    registry = Registry(runs, "ns")

    for _ in range(3):
        registry.introduce(Registration("mail"))

    assert len(runs.commands) == 2


@pytest.mark.parametrize(
    "text",
    [b"", b"nonsense", b"[]", b"{}", b'{"lanes": [], "lease": 5}', b'{"lanes": "x", "lease": 5}'],
)
def test_registration_that_cannot_be_read_has_the_defaults(text: bytes) -> None:
    assert Registration.parse("mail", text) == Registration("mail")


def test_registration_comes_back_as_it_was_written() -> None:
    registration = Registration("mail", ("urgent", "bulk"), 5_000)

    assert Registration.parse("mail", registration.packed().encode()) == registration
