"""What a second `send` of the same key does: nothing, and it says whose message is there."""

import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dramatiq
import pytest

from dramatiq_streams import InvalidOption, StreamsBroker
from tests.conftest import MakeBroker
from tests.contract.queue_state import QueueState, new_message
from tests.integration.producer.conftest import Signals
from tests.integration.unique.conftest import Actor, MakeActor, UniqueKeys
from tests.support.servers import Server

HOUR_MS = 3_600_000


def test_second_send_returns_the_first_ones_id_and_enqueues_nothing(
    work: Actor, queue: QueueState, unique_keys: UniqueKeys
) -> None:
    first = work.send(1)

    second = work.send(1)

    assert second.message_id == first.message_id
    assert [message.message_id for message in queue.messages()] == [first.message_id]
    assert list(unique_keys.held().values()) == [first.message_id]


def test_only_what_was_enqueued_is_told_to_middleware(broker: StreamsBroker, work: Actor) -> None:
    signals = Signals()
    broker.add_middleware(signals)

    work.send(1)
    work.send(1)

    assert signals.counts == {"before": 2, "after": 1}


def test_arguments_make_the_key_however_they_are_given(work: Actor, queue: QueueState) -> None:
    work.send(1)
    work.send(number=1)
    work.send(0)
    work.send()

    assert queue.count() == 2


def test_template_callable_and_message_option_make_keys(
    make_actor: MakeActor, unique_keys: UniqueKeys
) -> None:
    work = make_actor(idempotency_key="n{number}", unique_until="done")

    work.send(7)
    work.send_with_options(args=(7,), idempotency_key="mine")

    assert set(unique_keys.held()) == {"work:n7", "work:mine"}


def test_callable_makes_keys(make_actor: MakeActor, unique_keys: UniqueKeys) -> None:
    work = make_actor(idempotency_key=lambda number: f"c{number % 2}")

    first, second = work.send(1), work.send(3)

    assert first.message_id == second.message_id
    assert set(unique_keys.held()) == {"work:c1"}


def test_long_keys_are_kept_apart(make_actor: MakeActor, queue: QueueState) -> None:
    work = make_actor(lambda text: None, idempotency_key="{text}")

    for text in ("x" * 5_000, "x" * 5_001, "x" * 5_000, "\udc80", "ключ"):
        work.send(text)

    assert queue.count() == 4


def test_actors_and_queues_do_not_hinder_each_other(
    work: Actor, broker: StreamsBroker, queue: QueueState
) -> None:
    other = dramatiq.actor(actor_name="other", broker=broker, unique_for=60_000)(lambda n: None)
    first = work.send(1)

    elsewhere = broker.enqueue(work.message(1).copy(queue_name="elsewhere"))
    another = other.send(1)

    assert len({first.message_id, elsewhere.message_id, another.message_id}) == 3
    assert queue.count() == 2
    broker.flush("elsewhere")


def test_message_options_make_an_ordinary_actors_message_unique(
    broker: StreamsBroker, queue: QueueState, unique_keys: UniqueKeys
) -> None:
    work = dramatiq.actor(actor_name="work", broker=broker)(lambda number: None)

    first = work.send_with_options(args=(1,), unique_for=30_000)
    work.send_with_options(args=(1,), unique_until="done")
    work.send(1)

    assert queue.count() == 2
    assert list(unique_keys.held().values()) == [first.message_id]


def test_message_options_win_over_the_actors(work: Actor, unique_keys: UniqueKeys) -> None:
    work.send_with_options(args=(1,), unique_for=5_000)

    [key] = unique_keys.held()
    assert unique_keys.ends_in_ms(key) <= 5_000


def test_without_unique_for_a_key_is_kept_for_a_day(
    make_actor: MakeActor, unique_keys: UniqueKeys
) -> None:
    make_actor(unique_until="started").send(1)

    [key] = unique_keys.held()
    assert 24 * HOUR_MS - 60_000 < unique_keys.ends_in_ms(key) <= 24 * HOUR_MS


def test_message_carries_what_it_asks_for(work: Actor, queue: QueueState) -> None:
    work.send(1)

    [message] = queue.messages()
    assert message.options == {"unique_for": 60_000, "unique_until": "done"}


def test_reservation_ends_when_its_time_is_over(
    work: Actor, queue: QueueState, unique_keys: UniqueKeys
) -> None:
    first = work.send(1)
    [key] = unique_keys.held()
    unique_keys.end(key)

    second = work.send(1)

    assert second.message_id != first.message_id
    assert queue.count() == 2
    assert unique_keys.held() == {key: second.message_id}


def test_delayed_message_is_sent_once_and_has_its_key_for_longer(
    work: Actor, queue: QueueState, unique_keys: UniqueKeys
) -> None:
    first = work.send_with_options(args=(1,), delay=HOUR_MS)

    at_once = work.send(1)
    delayed = work.send_with_options(args=(1,), delay=5)

    assert at_once.message_id == delayed.message_id == first.message_id
    assert queue.count() == 1
    [key] = unique_keys.held()
    assert HOUR_MS < unique_keys.ends_in_ms(key) <= HOUR_MS + 60_000


def test_many_messages_each_by_itself(
    broker: StreamsBroker, work: Actor, queue: QueueState
) -> None:
    signals = Signals()
    broker.add_middleware(signals)
    there = work.send(3)
    ordinary = new_message(9)
    messages = [work.message(number % 5) for number in range(2_500)]

    enqueued = broker.enqueue_many([*messages, ordinary])

    assert queue.count() == 6
    assert len(enqueued) == 2_501
    by_number = {m.args[0]: m.message_id for m in queue.messages()}
    assert by_number[3] == there.message_id
    assert [m.message_id for m in enqueued[:-1]] == [by_number[n % 5] for n in range(2_500)]
    assert signals.counts["after"] == 6


def test_many_delayed_messages_are_unique_too(
    broker: StreamsBroker, work: Actor, queue: QueueState
) -> None:
    enqueued = broker.enqueue_many([work.message(1), work.message(1)], delay=HOUR_MS)

    assert queue.count() == 1
    assert len({message.message_id for message in enqueued}) == 1


def test_message_that_is_sent_again_as_it_is_counts_as_enqueued(
    broker: StreamsBroker, work: Actor, queue: QueueState
) -> None:
    signals = Signals()
    broker.add_middleware(signals)
    message = work.message(1)

    broker.enqueue(message)
    again = broker.enqueue(message)

    assert again.message_id == message.message_id
    assert queue.count() == 1
    assert signals.counts["after"] == 2


def test_threads_that_race_enqueue_one_message_and_all_learn_its_id(
    work: Actor, queue: QueueState
) -> None:
    threads, rounds = 8, 20
    barrier = threading.Barrier(threads)

    def send(_thread: int) -> list[str]:
        found = []
        for number in range(rounds):
            barrier.wait()
            found.append(work.send(number).message_id)
        return found

    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(send, range(threads)))

    assert queue.count() == rounds
    assert all(len(set(ids)) == 1 for ids in zip(*results, strict=True))


_SENDER = """
import sys
import dramatiq
from dramatiq_streams import StreamsBroker

broker = StreamsBroker(url=sys.argv[1], namespace=sys.argv[2])
dramatiq.set_broker(broker)

@dramatiq.actor(actor_name="work", unique_for=60_000)
def work(number):
    pass

broker.client.ping()
print("ready", flush=True)
sys.stdin.readline()
for number in range(50):
    print(work.send(number).message_id)
broker.close()
"""


def test_processes_that_race_enqueue_one_message_and_all_learn_its_id(
    server: Server, namespace: str, queue: QueueState, tmp_path: Path
) -> None:
    source = tmp_path / "sender.py"
    source.write_text(_SENDER)
    command = [sys.executable, str(source), server.url, namespace]
    pipe = subprocess.PIPE
    senders = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=tmp_path)
        for _ in range(3)
    ]
    for sender in senders:
        assert sender.stdout.readline() == "ready\n"

    for sender in senders:
        sender.stdin.write("go\n")
        sender.stdin.flush()
    results = [sender.communicate(timeout=30)[0].split() for sender in senders]

    assert queue.count() == 50
    assert results[0] == results[1] == results[2]
    assert len(set(results[0])) == 50


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"unique_for": 0}, "unique_for=0 is not possible: .* from 1 to"),
        ({"unique_for": True}, "unique_for=True"),
        ({"unique_for": 1.5}, "unique_for=1.5"),
        ({"unique_for": "1h"}, "unique_for='1h'"),
        ({"unique_for": 10**15}, "unique_for=1000000000000000"),
        ({"unique_until": "later"}, "unique_until='later' .* 'started' or 'done'"),
        ({"unique_until": ["done"]}, r"unique_until=\['done'\]"),
    ],
)
def test_wrong_options_are_refused_when_declared_and_when_sent(
    broker: StreamsBroker, options: dict[str, Any], text: str, queue: QueueState
) -> None:
    work = dramatiq.actor(actor_name="work", broker=broker)(lambda number: None)

    with pytest.raises(InvalidOption, match=text):
        dramatiq.actor(actor_name="wrong", broker=broker, **options)(lambda: None)
    with pytest.raises(InvalidOption, match=text):
        work.send_with_options(args=(1,), **options)
    with pytest.raises(InvalidOption, match=text):
        broker.enqueue_many([work.message(0), work.message(1).copy(options=options)])

    assert queue.count() == 0


def test_wrong_keys_are_refused_when_declared(broker: StreamsBroker) -> None:
    declare = dramatiq.actor(broker=broker, unique_for=1_000, idempotency_key="{nowhere}")

    with pytest.raises(InvalidOption, match="nowhere"):
        declare(lambda number: None)


def test_key_that_nothing_makes_use_of_is_refused(broker: StreamsBroker) -> None:
    declare = dramatiq.actor(broker=broker, idempotency_key="{number}")

    with pytest.raises(InvalidOption, match=r"unique_for or unique_until, or .* Idempotency"):
        declare(lambda number: None)


def test_arguments_that_the_actor_does_not_have_are_refused_when_sent(work: Actor) -> None:
    with pytest.raises(InvalidOption, match="'work' cannot be called with these arguments"):
        work.send(1, 2, 3)


def test_producer_that_does_not_know_the_actor_has_to_give_the_key(
    make_broker: MakeBroker, queue: QueueState
) -> None:
    broker = make_broker()
    without = new_message(1, unique_for=1_000)
    message = new_message(1, unique_for=1_000, idempotency_key="one")

    with pytest.raises(InvalidOption, match="needs its key as the option unique_key"):
        broker.enqueue(without)
    broker.enqueue(message)
    broker.enqueue(new_message(1, unique_for=1_000, idempotency_key="one"))
    broker.enqueue(new_message(1, unique_for=1_000, unique_key="one"))

    assert [found.message_id for found in queue.messages()] == [message.message_id]


@pytest.mark.parametrize("name", ["idempotency_key", "unique_key"])
@pytest.mark.parametrize("own", [7, "", ["a"], 1])
def test_wrong_key_of_a_message_is_refused(work: Actor, name: str, own: Any) -> None:
    with pytest.raises(InvalidOption, match=re.escape(f"{name}={own!r}")):
        work.send_with_options(args=(1,), **{name: own})


def test_ordinary_messages_touch_no_key(
    broker: StreamsBroker, queue: QueueState, unique_keys: UniqueKeys
) -> None:
    broker.enqueue(new_message(1))
    broker.enqueue(new_message(1))

    assert queue.count() == 2
    assert not queue.client.exists(unique_keys.keys.unique, unique_keys.keys.unique_messages)


@pytest.mark.parametrize("own", [True, False])
def test_message_may_choose_all_its_arguments_instead_of_the_actors_key(
    make_actor: MakeActor, queue: QueueState, own: bool
) -> None:
    work = make_actor(lambda number, reason: None, idempotency_key="{number}")

    for reason in ("a", "b", "b"):
        work.send_with_options(args=(1, reason), idempotency_key=own)
    work.send(1, "c")
    work.send(1, "d")

    assert queue.count() == 3
