"""Sections 2 (construction, base attributes), 7 (fork) and 8 (how others build a broker)."""

import socket
import subprocess
import sys
import threading
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq.middleware import Middleware, default_middleware
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend
from dramatiq.worker import has_results_middleware

from dramatiq_streams import InvalidOption, StreamsBroker
from tests.conftest import MakeBroker
from tests.contract.queue_state import QueueState, new_message

#: What every `StreamsBroker` has before the middleware it is given.
OWN = {"LeaseGuard", "HandBack", "OptionGuard", "Unique"}


class Recorder(Middleware):
    """Notes the signals it gets."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    @property
    def actor_options(self) -> set[str]:
        return {"colour"}

    def after_declare_actor(self, broker, actor) -> None:
        self.seen.append(("actor", actor.actor_name))

    def after_declare_queue(self, broker, queue_name) -> None:
        self.seen.append(("queue", queue_name))

    def after_declare_delay_queue(self, broker, queue_name) -> None:
        self.seen.append(("delay queue", queue_name))


def test_broker_starts_with_nothing_declared(any_broker: dramatiq.Broker) -> None:
    assert dict(any_broker.actors) == {}
    assert len(any_broker.queues) == 0
    assert any_broker.get_declared_queues() == set()
    assert any_broker.get_declared_delay_queues() == set()
    assert any_broker.delay_queues == set()


def test_default_middleware_is_dramatiqs_in_its_order(any_broker: dramatiq.Broker) -> None:
    names = [type(middleware).__name__ for middleware in any_broker.middleware]

    assert [name for name in names if name not in OWN] == [
        make.__name__ for make in default_middleware
    ]


def test_given_middleware_replaces_the_default(make_broker: MakeBroker) -> None:
    recorder = Recorder()

    broker = make_broker(middleware=[recorder])

    assert [m for m in broker.middleware if type(m).__module__.startswith("dramatiq.")] == []
    assert recorder in broker.middleware
    assert "colour" in broker.actor_options


def test_options_of_middleware_and_broker_are_merged(any_broker: dramatiq.Broker) -> None:
    before = set(any_broker.actor_options)

    any_broker.add_middleware(Recorder())

    assert any_broker.actor_options == before | {"colour"}
    assert {"max_retries", "time_limit", "max_age", "pipe_ignore"} <= any_broker.actor_options


def test_late_middleware_hears_of_what_was_declared(any_broker: dramatiq.Broker) -> None:
    dramatiq.actor(actor_name="work", queue_name="somewhere")(lambda: None)
    recorder = Recorder()

    any_broker.add_middleware(recorder)

    assert ("actor", "work") in recorder.seen
    assert ("queue", "somewhere") in recorder.seen
    delay_queues = [("delay queue", name) for name in any_broker.get_declared_delay_queues()]
    assert [signal for signal in recorder.seen if signal[0] == "delay queue"] == delay_queues


def test_declared_queues_are_a_copy(any_broker: dramatiq.Broker) -> None:
    any_broker.declare_queue("somewhere")

    any_broker.get_declared_queues().add("elsewhere")
    any_broker.get_declared_delay_queues().add("elsewhere.DQ")

    assert "elsewhere" not in any_broker.get_declared_queues()
    assert "elsewhere.DQ" not in any_broker.get_declared_delay_queues()


def test_broker_is_hashable_by_identity(make_broker: MakeBroker) -> None:
    first, second = make_broker(), make_broker()

    found = {first: 1, second: 2}

    assert first != second
    assert found[first] == 1
    assert found[second] == 2


def test_broker_can_be_a_key_of_the_workers_cache(make_broker: MakeBroker) -> None:
    plain, with_results = make_broker(), make_broker()
    with_results.add_middleware(Results(backend=StubBackend()))

    assert not has_results_middleware(plain)
    assert has_results_middleware(with_results)


def test_constructor_starts_no_thread_and_connects_to_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        threads = set(threading.enumerate())

        broker = StreamsBroker(url=f"redis://127.0.0.1:{listener.getsockname()[1]}")
        broker.declare_queue("somewhere")
        dramatiq.actor(broker=broker, actor_name="work", priority=5)(lambda: None)

        assert set(threading.enumerate()) == threads
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_broker_is_no_callable_and_so_can_be_named_on_the_command_line(
    broker: StreamsBroker,
) -> None:
    assert not callable(broker)
    assert isinstance(broker, dramatiq.Broker)
    assert dramatiq.get_broker() is broker


def test_dashboards_find_client_namespace_and_queues(broker: StreamsBroker, namespace: str) -> None:
    broker.declare_queue("somewhere")

    assert broker.client.ping()
    assert broker.namespace == namespace
    assert list(broker.queues) == ["somewhere"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("namespace", "two words"),
        ("namespace", "{tag}"),
        ("namespace", ""),
        ("lease", 999),
        ("lease", 1000.5),
        ("lease", True),
        ("max_deliveries", 0),
        ("dead_message_ttl", -1),
        ("max_dead_messages", 0),
        ("lanes", []),
        ("lanes", "high"),
        ("lanes", ["a", "a"]),
        ("lanes", {"a": 0, "b": 100}),
        ("url", 6379),
        ("client", "redis://localhost"),
    ],
)
def test_impossible_option_is_named_with_its_value(option: str, value: Any) -> None:
    with pytest.raises(InvalidOption, match=option) as caught:
        StreamsBroker(**{option: value})

    assert repr(value) in str(caught.value)


def test_unknown_connection_option_fails_at_once() -> None:
    with pytest.raises(InvalidOption, match="socket_tiemout"):
        StreamsBroker(url="redis://localhost", socket_tiemout=3)


def test_client_and_url_together_are_refused() -> None:
    with redis.Redis() as client, pytest.raises(InvalidOption, match="leave out url"):
        StreamsBroker(client=client, url="redis://localhost")


FORKING = """
import os
import sys
from dramatiq.message import Message
from dramatiq_streams import StreamsBroker

url, namespace, uses_it_first = sys.argv[1], sys.argv[2], sys.argv[3] == "used"
broker = StreamsBroker(url=url, namespace=namespace)
broker.declare_queue("default")

def work(number):
    message = Message("default", "work", (number,), {}, {})
    assert broker.enqueue(message).message_id == message.message_id
    consumer = broker.consume("default", prefetch=1, timeout=5000)
    delivered = next(consumer)
    assert delivered is not None
    holders = {
        pending["consumer"].decode()
        for lane in broker.options.lanes.names
        for pending in broker.client.xpending_range(
            "{%s:default:0}:lane:%s" % (broker.namespace, lane), "workers", "-", "+", 10
        )
    }
    assert any(f":{os.getpid()}:" in holder for holder in holders), holders
    consumer.ack(delivered)
    consumer.close()

if uses_it_first:
    work(0)
children = []
for number in (1, 2):
    pid = os.fork()
    if pid == 0:
        try:
            work(number)
            broker.close()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
assert codes == [0, 0], codes
work(3)
broker.close()
"""


@pytest.mark.parametrize("before_fork", ["unused", "used"])
def test_broker_works_on_both_sides_of_a_fork(
    server, namespace: str, queue: QueueState, before_fork: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, server.url, namespace, before_fork],
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert done.returncode == 0, done.stderr
    assert queue.count() == 0
    assert queue.consumers() == set()


def test_closed_broker_can_be_used_again(broker: StreamsBroker, queue: QueueState) -> None:
    broker.enqueue(new_message(1))
    broker.close()
    broker.close()

    broker.enqueue(new_message(2))

    assert [message.args for message in queue.messages()] == [(1,), (2,)]


def test_nothing_of_the_broker_runs_after_close(broker: StreamsBroker) -> None:
    threads = set(threading.enumerate())
    consumer = broker.consume("default", timeout=10)
    started = set(threading.enumerate()) - threads
    next(consumer)
    consumer.close()

    broker.close()

    assert started
    assert all(thread.daemon for thread in started)
    assert not any(thread.is_alive() for thread in started)
