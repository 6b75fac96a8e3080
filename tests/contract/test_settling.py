"""Section 3: `ack` and `nack`, repeated, late and out of order."""

import threading
from collections.abc import Callable

import pytest
from dramatiq.broker import MessageProxy
from dramatiq.errors import ConnectionClosed
from dramatiq.message import Message

from dramatiq_streams import StreamsBroker
from dramatiq_streams.consumer import StreamsConsumer
from dramatiq_streams.keys import RELEASED
from tests.conftest import MakeBroker
from tests.contract.conftest import StartConsumer, acknowledge, reject, take
from tests.contract.queue_state import QueueState, new_message
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until


def fail(consumer: StreamsConsumer, message: MessageProxy, error: Exception) -> None:
    """What the Worker does with a message that failed for good."""
    message.stuff_exception(error)
    message.fail()
    consumer.nack(message)


def test_acked_message_is_gone(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    [message] = take(consumer, 1)

    consumer.ack(message)

    assert queue.messages() == []
    assert queue.pending() == {}
    assert queue.dead() == []


def test_nacked_message_is_a_dead_letter(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    [message] = take(consumer, 1)

    fail(consumer, message, ZeroDivisionError("by nought"))

    [letter] = queue.dead()
    assert letter["reason"] == b"failed"
    assert letter["error"] == b"ZeroDivisionError: by nought"
    assert letter["lane"] == b"default"
    assert letter["deliveries"] == b"1"
    assert Message.decode(letter["m"]).message_id == message.message_id
    assert queue.count() == 0
    assert queue.pending() == {}


def test_dead_letter_has_the_options_as_middleware_left_them(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue(new_message(1, colour="blue"))
    consumer = start_consumer(broker)
    [message] = take(consumer, 1)
    changes = {"retries": 3, "traceback": "Traceback ...", "requeue_timestamp": 1_234}

    message.options.update(changes)
    fail(consumer, message, ZeroDivisionError())

    [letter] = queue.dead()
    assert Message.decode(letter["m"]).options == {"colour": "blue", **changes}


def test_options_that_cannot_be_encoded_do_not_keep_a_message_from_dying(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    sent = broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    [message] = take(consumer, 1)

    message.options["handle"] = object()
    fail(consumer, message, ZeroDivisionError())

    [letter] = queue.dead()
    assert Message.decode(letter["m"]) == sent


@pytest.mark.parametrize("error", [Exception("x" * 10_000), Exception("\ud800 ü \0")], ids=repr)
def test_any_error_text_can_be_kept(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState, error: Exception
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    [message] = take(consumer, 1)

    fail(consumer, message, error)

    [letter] = queue.dead()
    assert letter["error"].startswith(b"Exception: ")
    assert len(letter["error"]) <= 3_000


def test_error_whose_text_cannot_be_had_does_not_keep_a_message_from_dying(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    [message] = take(consumer, 1)

    fail(consumer, message, Mute())

    [letter] = queue.dead()
    assert b"Mute" in letter["error"]


Settle = Callable[[StreamsConsumer, MessageProxy], None]
either = pytest.mark.parametrize(("settle", "dead"), [(acknowledge, 0), (reject, 1)])


@either
def test_settling_again_has_no_effect(
    broker: StreamsBroker,
    start_consumer: StartConsumer,
    queue: QueueState,
    settle: Settle,
    dead: int,
) -> None:
    broker.enqueue_many([new_message(1), new_message(2)])
    consumer = start_consumer(broker)
    first, _ = take(consumer, 2)

    for _ in range(3):
        settle(consumer, first)
    acknowledge(consumer, first)
    reject(consumer, first)

    assert [message.args for message in queue.messages()] == [(2,)]
    assert len(queue.dead()) == dead


@either
def test_settling_through_a_closed_consumer_works(
    broker: StreamsBroker,
    start_consumer: StartConsumer,
    queue: QueueState,
    settle: Settle,
    dead: int,
) -> None:
    broker.enqueue(new_message(1))
    consumer = start_consumer(broker)
    [message] = take(consumer, 1)
    consumer.close()

    settle(consumer, message)

    assert queue.count() == 0
    assert len(queue.dead()) == dead


@either
def test_settling_a_message_of_an_earlier_consumer_works(
    broker: StreamsBroker,
    start_consumer: StartConsumer,
    queue: QueueState,
    settle: Settle,
    dead: int,
) -> None:
    broker.enqueue(new_message(1))
    earlier = start_consumer(broker)
    [message] = take(earlier, 1)
    earlier.close()
    later = start_consumer(broker)

    settle(later, message)

    assert queue.count() == 0
    assert len(queue.dead()) == dead


def test_messages_of_an_earlier_consumer_count_against_the_prefetch_of_the_next(
    broker: StreamsBroker, start_consumer: StartConsumer, queue: QueueState
) -> None:
    broker.enqueue_many([new_message(number) for number in range(4)])
    earlier = start_consumer(broker, prefetch=2)
    messages = take(earlier, 2)
    earlier.close()
    later = start_consumer(broker, prefetch=2, timeout=50)

    assert next(later) is None
    for message in messages:
        later.ack(message)

    assert len(take(later, 2)) == 2


@either
def test_settling_what_another_worker_took_over_changes_nothing(
    make_broker: MakeBroker,
    start_consumer: StartConsumer,
    queue: QueueState,
    settle: Settle,
    dead: int,
) -> None:
    first, second = make_broker(), make_broker()
    first.enqueue(new_message(1))
    loser = start_consumer(first)
    [message] = take(loser, 1)
    [(_, entry)] = queue.pending()
    queue.client.xclaim(
        queue.lane("default"), "workers", RELEASED, min_idle_time=0, message_ids=[entry]
    )
    winner = start_consumer(second)
    take(winner, 1)
    before = queue.held()

    settle(loser, message)

    assert queue.dead() == []
    assert queue.held().keys() == before.keys()
    assert len(queue.messages()) == 1


@either
def test_settling_from_many_threads_while_next_runs_loses_and_doubles_nothing(
    broker: StreamsBroker,
    start_consumer: StartConsumer,
    queue: QueueState,
    settle: Settle,
    dead: int,
) -> None:
    broker.enqueue_many([new_message(number) for number in range(300)])
    consumer = start_consumer(broker, prefetch=32, timeout=50)
    seen: list[int] = []
    waiting: list[MessageProxy] = []
    finished = threading.Event()

    def work() -> None:
        while not finished.is_set() or waiting:
            try:
                message = waiting.pop()
            except IndexError:
                finished.wait(0.001)
                continue
            seen.append(message.args[0])
            settle(consumer, message)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    while message := next(consumer):
        waiting.append(message)
    wait_until(lambda: len(seen) == 300)
    finished.set()
    for worker in workers:
        worker.join()

    consumer.close()
    assert sorted(seen) == list(range(300))
    assert queue.count() == 0
    assert len(queue.dead()) == 300 * dead


def test_acks_taken_while_the_server_is_gone_take_effect_when_it_is_back(
    own_server: Server,
) -> None:
    broker = StreamsBroker(url=own_server.url)
    queue = QueueState(own_server.client(), "dramatiq-streams")
    broker.enqueue(new_message(1))
    consumer = broker.consume("default", prefetch=1, timeout=100)
    [message] = take(consumer, 1)
    own_server.kill()
    consumer.ack(message)
    consumer.close()
    own_server.start()

    later = broker.consume("default", prefetch=1, timeout=100)
    assert next(later) is None

    later.close()
    broker.close()
    assert queue.messages() == []
    assert queue.pending() == {}


@pytest.mark.parametrize("lost", ["drop_before", "drop_reply"])
def test_nack_can_be_repeated_when_its_reply_was_lost(
    server: Server, make_broker: MakeBroker, queue: QueueState, lost: str
) -> None:
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url)
        broker.enqueue(new_message(1))
        consumer = broker.consume("default", prefetch=1, timeout=100)
        [message] = take(consumer, 1)
        message.fail()
        getattr(proxy, lost)(b" failed ")

        with pytest.raises(ConnectionClosed):
            consumer.nack(message)
        consumer.nack(message)
        consumer.close()
        broker.close()

    assert len(queue.dead()) == 1
    assert queue.count() == 0


@pytest.mark.parametrize("lost", ["drop_before", "drop_reply"])
def test_ack_whose_reply_was_lost_takes_effect_once(
    server: Server,
    make_broker: MakeBroker,
    queue: QueueState,
    lost: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url)
        broker.enqueue(new_message(1))
        consumer = broker.consume("default", prefetch=1, timeout=50)
        [message] = take(consumer, 1)
        getattr(proxy, lost)(rb"^EVAL")

        consumer.ack(message)
        assert next(consumer) is None
        consumer.close()
        broker.close()

    assert queue.count() == 0
    assert queue.pending() == {}
    assert "after its lease was lost" not in caplog.text
