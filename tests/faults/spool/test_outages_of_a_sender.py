"""A sender with a spool in an outage: what it spools comes in order, once, or is refused."""

import time

import pytest

from dramatiq_streams import NotEnqueued, SpoolFull, StreamsBroker
from tests.conftest import StartServer
from tests.contract.queue_state import QueueState, new_message
from tests.faults.scene import script
from tests.faults.spool.conftest import MakeSender
from tests.faults.spool.senders import labels, spooled, wait_until_drained
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000


def test_messages_of_an_outage_are_sent_in_order_when_it_is_over(
    sender: StreamsBroker, proxy: FaultyProxy, queue: QueueState
) -> None:
    sender.enqueue(new_message(0))
    proxy.refuse()

    for number in range(1, 200):
        sender.enqueue(new_message(number))
    sender.enqueue_many([new_message(number) for number in range(200, 1_400)])
    assert labels(queue) == [0]
    proxy.accept()
    for number in range(1_400, 1_500):
        sender.enqueue(new_message(number))

    wait_until_drained(sender)
    sender.enqueue(new_message(1_500))
    assert labels(queue) == list(range(1_501))


def test_send_is_quick_after_the_first_failure(
    make_sender: MakeSender, server: Server, queue: QueueState
) -> None:
    # A server that takes connections and says nothing: each attempt costs a timeout.
    with FaultyProxy(server) as silent:
        sender = make_sender(url=silent.url, socket_timeout=3, socket_connect_timeout=3)
        sender.enqueue(new_message(0))
        silent.delay_replies(30)
        started = time.monotonic()
        sender.enqueue(new_message(1))
        first = time.monotonic() - started

        started = time.monotonic()
        for number in range(2, 22):
            sender.enqueue(new_message(number))
            sender.enqueue(new_message(number, queue=f"queue{number}"))
        others = time.monotonic() - started
        silent.heal()
        silent.cut()
        wait_until_drained(sender)
        sender.close()

    assert first > 2.5
    assert others < 10  # each of them with a timeout of its own: two minutes
    # The reply to the first was lost, so it is there once or twice; the others exactly once.
    assert [label for label in labels(queue) if label != 1] == [0, *range(2, 22)]
    assert labels(queue).count(1) in (1, 2)


def test_delayed_messages_keep_their_instant(
    sender: StreamsBroker, proxy: FaultyProxy, queue: QueueState
) -> None:
    proxy.refuse()
    now = queue.now_ms()
    sender.enqueue(new_message(1), delay=HOUR_MS)
    sender.enqueue(new_message(2), delay=1)
    kept = queue.now_ms()
    later = time.monotonic() + 0.3
    wait_until(lambda: time.monotonic() > later)

    proxy.accept()
    wait_until_drained(sender)

    etas = {message.args[0]: eta - now for eta, message in queue.delayed()}
    assert -100 < etas[1] - HOUR_MS < kept - now + 100
    assert etas[2] < 20_000


def test_replies_that_are_lost_while_it_drains_double_nothing(
    sender: StreamsBroker, proxy: FaultyProxy, queue: QueueState
) -> None:
    proxy.refuse()
    sender.enqueue_many([new_message(number) for number in range(100)])
    sender.enqueue_many([new_message(-number) for number in range(1, 11)], delay=HOUR_MS)
    proxy.drop_reply(script("take_in") + rb'.*"args":\[10\]')
    proxy.drop_reply(script("take_in") + rb'.*"args":\[60\]')
    proxy.drop_before(script("take_in") + rb'.*"args":\[80\]')
    proxy.drop_reply(script("take_in") + rb'.*"args":\[-5\]')

    proxy.accept()
    wait_until_drained(sender)

    assert labels(queue) == list(range(100))
    assert len(queue.delayed()) == 10
    assert proxy.counts["drop_reply"] == 3
    assert proxy.counts["drop_before"] == 1


def test_lost_reply_to_a_direct_send_is_spooled_rather_than_lost(
    sender: StreamsBroker, proxy: FaultyProxy, queue: QueueState
) -> None:
    sender.enqueue(new_message(0))
    proxy.drop_before(rb"^XADD ")

    sender.enqueue(new_message(1))

    wait_until_drained(sender)
    assert labels(queue) == [0, 1]


def test_full_spool_refuses_with_the_message_and_keeps_what_it_has(
    make_sender: MakeSender, proxy: FaultyProxy, queue: QueueState
) -> None:
    sender = make_sender(spool_max_messages=3)
    proxy.refuse()
    for number in range(3):
        sender.enqueue(new_message(number))
    message = new_message(3)

    with pytest.raises(SpoolFull, match="the spool is full") as caught:
        sender.enqueue(message)
    proxy.accept()
    wait_until_drained(sender)

    assert message.message_id in str(caught.value)
    assert caught.value.unsent == [message]
    assert isinstance(caught.value, NotEnqueued)
    assert labels(queue) == [0, 1, 2]


def test_full_server_keeps_what_is_spooled_and_drains_when_it_has_room(
    make_sender: MakeSender, own_server: Server, namespace: str
) -> None:
    with FaultyProxy(own_server) as proxy:
        sender = make_sender(url=proxy.url)
        queue = QueueState(own_server.client(), namespace)
        sender.enqueue(new_message(0))
        proxy.refuse()
        sender.enqueue_many([new_message(number) for number in range(1, 50)])
        queue.client.config_set("maxmemory-policy", "noeviction")
        queue.client.config_set("maxmemory", 1)
        proxy.accept()
        drain = sender._process._drain
        assert drain is not None
        wait_until(lambda: "out of memory" in drain._complaint)
        assert spooled(sender) == 49

        queue.client.config_set("maxmemory", 0)
        wait_until_drained(sender)

        assert labels(queue) == list(range(50))
        sender.close()


def test_queue_that_the_server_refuses_hinders_no_other(
    sender: StreamsBroker, proxy: FaultyProxy, queue: QueueState
) -> None:
    queue.client.set(queue.lane("default"), "no stream")
    proxy.refuse()
    sender.enqueue(new_message("stuck"))
    sender.enqueue_many([new_message(number, queue="mail") for number in range(10)])
    proxy.accept()

    wait_until(lambda: spooled(sender) == 1)
    queue.client.delete(queue.lane("default"))
    wait_until_drained(sender)

    mail = QueueState(queue.client, sender.namespace, "mail")
    assert labels(mail) == list(range(10))
    assert labels(queue) == ["stuck"]


def test_spool_keeps_what_too_few_replicas_have_and_doubles_nothing(
    make_sender: MakeSender, own_server: Server, start_server: StartServer, namespace: str
) -> None:
    replica = start_server(config=[f"replicaof 127.0.0.1 {own_server.port}"], tcp=True)
    master = own_server.client()
    wait_until(lambda: master.execute_command("WAIT", 1, 10) == 1, timeout=20)
    with FaultyProxy(own_server) as proxy:
        sender = make_sender(url=proxy.url, wait_replicas=1, wait_timeout=200)
        proxy.refuse()
        sender.enqueue_many([new_message(number) for number in range(10)])
        replica.pause()
        proxy.accept()
        wait_until(lambda: proxy.commands["WAIT"] > 2, timeout=20)
        assert spooled(sender) == 10

        replica.resume()
        wait_until_drained(sender)

        assert labels(QueueState(replica.client(), namespace)) == list(range(10))
        sender.close()


@pytest.mark.parametrize("number", range(3))
def test_flush_of_the_server_while_it_drains_loses_nothing_that_comes_after_it(
    make_sender: MakeSender, own_server: Server, namespace: str, number: int
) -> None:
    with FaultyProxy(own_server) as proxy:
        sender = make_sender(url=proxy.url)
        queue = QueueState(own_server.client(), namespace)
        proxy.refuse()
        sender.enqueue_many([new_message(label) for label in range(3_000)])
        proxy.accept()
        wait_until(lambda: queue.count() > number * 400)

        queue.client.flushall()

        wait_until_drained(sender)
        found = labels(queue)
        assert found == sorted(set(found))
        assert found == list(range(3_000 - len(found), 3_000))
        sender.close()
