"""Signed messages over the broker: those that nobody signed never reach an actor."""

from collections.abc import Iterator

import dramatiq
import pytest
from dramatiq.errors import Retry

from dramatiq_streams import SigningEncoder, StreamsBroker
from tests.conftest import MakeWorker
from tests.contract.queue_state import QueueState, new_message

KEY, OTHER_KEY = "k" * 32, "o" * 32


@pytest.fixture(autouse=True)
def _encoder() -> Iterator[None]:
    """The encoder of dramatiq is one for the whole process."""
    before = dramatiq.get_encoder()
    dramatiq.set_encoder(SigningEncoder([KEY]))
    yield
    dramatiq.set_encoder(before)


def test_signed_messages_run_and_are_signed_again_when_they_are_retried(
    broker: StreamsBroker, make_worker: MakeWorker
) -> None:
    runs: list[int] = []

    @dramatiq.actor
    def work(number: int) -> None:
        runs.append(number)
        if runs.count(number) == 1:
            raise Retry(delay=10)

    work.send(1)
    work.send_with_options(args=(2,), delay=10)
    make_worker(broker)
    broker.join("default", timeout=10_000)

    assert sorted(runs) == [1, 1, 2, 2]


def test_forged_messages_are_dead_letters_with_a_reason(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    runs: list[int] = []
    dramatiq.actor(actor_name="work")(runs.append)
    signed = new_message(1).encode()
    forged = [
        signed.partition(b".")[2],
        signed.rpartition(b".")[2],
        signed.replace(b'"args":[1]', b'"args":[2]'),
        SigningEncoder([OTHER_KEY]).encode(new_message(3).asdict()),
    ]

    for body in forged:
        queue.add_raw({"m": body})
    broker.enqueue(new_message(4))
    make_worker(broker)
    broker.join("default", timeout=10_000)

    assert runs == [4]
    letters = queue.dead()
    assert [letter["reason"] for letter in letters] == [b"undecodable"] * 4
    assert [letter["m"] for letter in letters] == forged
    reasons = ["not signed", "not signed", "changed or forged", "unknown key"]
    for letter, reason in zip(letters, reasons, strict=True):
        assert reason in letter["error"].decode()
