"""A million bytes go all the way; what is larger than allowed is refused where it is sent."""

import dramatiq
import pytest
from dramatiq.errors import Retry

from dramatiq_streams import MessageTooLarge, PartlyEnqueued, StreamsBroker
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import QueueState, new_message
from tests.integration.producer.conftest import Signals

MILLION = "x" * 1_000_000


def test_million_bytes_are_run_delayed_retried_and_dead_lettered(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    runs: list[int] = []

    @dramatiq.actor(max_retries=1, min_backoff=1)
    def work(text: str, fails: int) -> None:
        runs.append(len(text))
        if runs.count(len(text)) <= fails:
            raise Retry(delay=10)

    work.send(MILLION, 0)
    broker.enqueue_many([work.message(MILLION + "y", 0)])
    work.send_with_options(args=(MILLION + "yy", 0), delay=50)
    work.send(MILLION + "yyy", 1)
    work.send(MILLION + "yyyy", 2)
    make_worker(broker)
    broker.join("default", timeout=20_000)

    sizes = [len(MILLION) + more for more in range(5)]
    assert sorted(runs) == sorted([*sizes, sizes[3], sizes[4]])
    (letter,) = queue.dead()
    assert len(letter["m"]) > sizes[4]


@pytest.mark.parametrize("delay", [None, 1_000])
def test_larger_message_is_refused_and_nothing_is_sent(
    make_broker: MakeBroker, queue: QueueState, signals: Signals, delay: int | None
) -> None:
    broker = make_broker(max_message_bytes=2_000)
    broker.add_middleware(signals)
    message = new_message("x" * 3_000)
    size = len(message.encode())

    with pytest.raises(MessageTooLarge) as caught:
        broker.enqueue(message, delay=delay)

    assert f"{size:,} bytes" in str(caught.value)
    assert "max_message_bytes allows 2,000" in str(caught.value)
    assert message.message_id in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert queue.count() == 0
    assert signals.counts["after"] == 0


def test_size_is_allowed_to_the_last_byte(make_broker: MakeBroker, queue: QueueState) -> None:
    message = new_message("x" * 3_000)
    size = len(message.encode())

    make_broker(max_message_bytes=size).enqueue(message)
    with pytest.raises(MessageTooLarge):
        make_broker(max_message_bytes=size - 1).enqueue(message)

    assert queue.count() == 1


def test_large_one_among_many_is_refused_with_those_after_it(
    make_broker: MakeBroker, queue: QueueState
) -> None:
    broker = make_broker(max_message_bytes=2_000)
    messages = [new_message(number) for number in range(1_500)]
    messages[1_200] = new_message("x" * 3_000)

    with pytest.raises(PartlyEnqueued, match="max_message_bytes") as caught:
        broker.enqueue_many(messages)

    assert len(caught.value.enqueued) == queue.count() == 1_000
    assert len(caught.value.unsent) == 500


def test_retry_may_be_larger_than_what_is_sent(
    make_broker: MakeBroker, make_worker: MakeWorker, queue: QueueState
) -> None:
    broker = make_broker(max_message_bytes=1_024)
    runs: list[str] = []

    @dramatiq.actor(max_retries=1, min_backoff=1, max_backoff=2)
    def work(text: str) -> None:
        runs.append(text)
        raise ValueError("a reason that makes the traceback long: " + "y" * 2_000)

    work.send("x" * 500)
    make_worker(broker)
    broker.join("default", timeout=10_000)

    assert len(runs) == 2
    (letter,) = queue.dead()
    assert len(letter["m"]) > 1_024
