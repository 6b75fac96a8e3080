"""Section 4: redis-py's errors become dramatiq's, and what may leave which call."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from dramatiq.errors import BrokerConnectionError, ConnectionClosed, ConnectionFailed
from redis.exceptions import ClusterDownError, MasterDownError, NoScriptError, TryAgainError

from dramatiq_streams import (
    CommandFailed,
    GroupMissing,
    ServerOutOfMemory,
    StreamsBroker,
    StreamsError,
)
from dramatiq_streams.failures import as_broker_error
from tests.conftest import MakeBroker, StartServer
from tests.contract.queue_state import QueueState, new_message
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server

NOTHING_LISTENS = "redis://127.0.0.1:1"

ERRORS: list[tuple[Exception, type[Exception]]] = [
    (redis.ConnectionError("Connection reset by peer"), ConnectionClosed),
    (redis.TimeoutError("Timeout reading from socket"), ConnectionClosed),
    (ConnectionResetError(104, "Connection reset by peer"), ConnectionClosed),
    (BrokenPipeError(), ConnectionClosed),
    (redis.BusyLoadingError("Redis is loading the dataset in memory"), ConnectionFailed),
    (redis.AuthenticationError("WRONGPASS invalid username-password pair"), ConnectionFailed),
    (redis.AuthenticationError("Authentication required."), ConnectionFailed),
    (redis.ReadOnlyError("You can't write against a read only replica."), ConnectionFailed),
    (
        redis.ResponseError("READONLY You can't write against a read only replica."),
        ConnectionFailed,
    ),
    (redis.ResponseError("NOREPLICAS Not enough good replicas to write."), ConnectionFailed),
    (MasterDownError("Link with MASTER is down"), ConnectionFailed),
    (redis.ResponseError("MASTERDOWN Link with MASTER is down"), ConnectionFailed),
    (ClusterDownError("CLUSTERDOWN The cluster is down"), ConnectionFailed),
    (redis.ResponseError("CLUSTERDOWN Hash slot not served"), ConnectionFailed),
    (TryAgainError("Multiple keys request during rehashing of slot"), ConnectionFailed),
    (redis.ResponseError("MISCONF Redis is configured to save RDB snapshots"), ConnectionFailed),
    (redis.ResponseError("BUSY Redis is busy running a script."), ConnectionFailed),
    (redis.ResponseError("max number of clients reached"), ConnectionFailed),
    (redis.ResponseError("Protocol error: unauthenticated bulk length"), ConnectionFailed),
    (redis.ResponseError("Protocol error: unauthenticated multibulk length"), ConnectionFailed),
    (
        redis.OutOfMemoryError("command not allowed when used memory >"),
        ServerOutOfMemory,
    ),
    (redis.ResponseError("OOM command not allowed when used memory"), ServerOutOfMemory),
    (redis.ResponseError("ERR Error running script: -OOM command not allowed"), ServerOutOfMemory),
    (redis.ResponseError("NOGROUP No such key 'q' or consumer group 'workers'"), GroupMissing),
    (redis.ResponseError("UNBLOCKED the stream key no longer exists"), GroupMissing),
    (
        redis.ResponseError(
            "UNBLOCKED force unblock from blocking operation, instance state changed"
            " (master -> replica?)"
        ),
        ConnectionFailed,
    ),
    (redis.ResponseError("ERR user_script:12: -NOGROUP No such key"), GroupMissing),
    (NoScriptError("No matching script. Please use EVAL."), NoScriptError),
    (redis.ResponseError("WRONGTYPE Operation against a key"), CommandFailed),
    (redis.ResponseError("NOPERM this user has no permissions"), CommandFailed),
    (redis.ResponseError("unknown command 'XAUTOCLAIM'"), CommandFailed),
]


@pytest.mark.parametrize(("error", "expected"), ERRORS, ids=lambda value: str(value)[:40])
def test_error_of_redis_py_becomes(error: Exception, expected: type[Exception]) -> None:
    translated = as_broker_error(error)

    assert type(translated) is expected
    assert str(error)[:20] in str(translated)


def test_errors_that_the_worker_waits_out_are_connection_errors() -> None:
    waits = {kind for _, kind in ERRORS if issubclass(kind, BrokerConnectionError)}

    assert waits == {ConnectionClosed, ConnectionFailed, ServerOutOfMemory}


def calls(broker: StreamsBroker) -> dict[str, Callable[[], Any]]:
    return {
        "enqueue": lambda: broker.enqueue(new_message(1)),
        "enqueue with a delay": lambda: broker.enqueue(new_message(1), delay=1_000),
        "enqueue_many": lambda: broker.enqueue_many([new_message(1)]),
        "consume": lambda: broker.consume("default", timeout=100),
        "join": lambda: broker.join("default", timeout=100),
        "flush": lambda: broker.flush("default"),
    }


@pytest.mark.parametrize("call", list(calls(StreamsBroker())))
def test_nothing_listening_is_a_failed_connection(make_broker: MakeBroker, call: str) -> None:
    broker = make_broker(url=NOTHING_LISTENS, enqueue_timeout=0)

    with pytest.raises(BrokerConnectionError) as caught:
        calls(broker)[call]()

    assert isinstance(caught.value, ConnectionFailed) or call == "enqueue_many"
    assert "refused" in str(caught.value)


@pytest.mark.parametrize("call", list(calls(StreamsBroker())))
def test_wrong_password_is_a_failed_connection(start_server: StartServer, call: str) -> None:
    own = start_server(config=["requirepass sesame"])
    broker = StreamsBroker(url=own.admin_url, enqueue_timeout=0)

    with pytest.raises(BrokerConnectionError):
        calls(broker)[call]()

    broker.close()


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (["replicaof 127.0.0.1 1"], "read only replica"),
        (["min-replicas-to-write 1"], "NOREPLICAS"),
        (["cluster-enabled yes"], "Hash slot not served|cluster is down"),
    ],
)
def test_server_that_cannot_write_now_is_a_failed_connection(
    start_server: StartServer, config: list[str], reason: str
) -> None:
    own = start_server(config=config, tcp=True)
    broker = StreamsBroker(url=own.url, enqueue_timeout=0)

    for name in ("enqueue", "enqueue with a delay", "flush"):
        with pytest.raises(ConnectionFailed, match=reason):
            calls(broker)[name]()
    with pytest.raises(ConnectionFailed, match=reason):
        next(broker.consume("default", timeout=100))

    broker.close()


def test_replica_that_lost_its_master_is_a_failed_connection(own_server: Server) -> None:
    broker = StreamsBroker(url=own_server.url, enqueue_timeout=0)
    admin = own_server.client()
    admin.config_set("replica-serve-stale-data", "no")
    admin.replicaof("127.0.0.1", "1")

    for name in ("enqueue", "enqueue with a delay", "join", "flush"):
        with pytest.raises(ConnectionFailed, match=r"MASTER is down|read only"):
            calls(broker)[name]()

    broker.close()


def test_server_that_is_full_says_so(start_server: StartServer) -> None:
    own = start_server()
    broker = StreamsBroker(url=own.url)
    broker.enqueue(new_message(1))
    own.client().config_set("maxmemory", "1")

    for name in ("enqueue", "enqueue with a delay"):
        with pytest.raises(ServerOutOfMemory, match="out of memory"):
            calls(broker)[name]()

    own.client().config_set("maxmemory", "0")
    consumer = broker.consume("default", timeout=200)
    assert next(consumer)
    assert next(consumer) is None
    consumer.close()
    broker.close()


def test_full_server_can_still_be_worked_off(start_server: StartServer) -> None:
    own = start_server()
    broker = StreamsBroker(url=own.url)
    queue = QueueState(own.client(), "dramatiq-streams")
    broker.enqueue_many([new_message(number) for number in range(5)])
    consumer = broker.consume("default", prefetch=2, timeout=200)
    first = next(consumer)
    assert first is not None
    queue.client.config_set("maxmemory", "1")

    consumer.ack(first)
    done = 1
    while message := next(consumer):
        consumer.ack(message)
        done += 1
    consumer.close()
    broker.close()

    assert done == 5
    assert queue.count() == 0


def test_flushed_scripts_are_loaded_again(start_server: StartServer) -> None:
    own = start_server()
    broker = StreamsBroker(url=own.url)
    client = own.client()
    consumer = broker.consume("default", prefetch=10, timeout=500)

    for delay in (None, 1):
        client.script_flush()
        broker.enqueue(new_message(1), delay=delay)
        client.script_flush()
        broker.enqueue_many([new_message(2), new_message(3)], delay=delay)
        for _ in range(3):
            client.script_flush()
            message = next(consumer)
            assert message is not None
            client.script_flush()
            consumer.ack(message)
    client.script_flush()
    broker.join("default", timeout=2_000)

    consumer.close()
    broker.close()


def test_request_that_was_lost_is_not_repeated(
    server: Server, make_broker: MakeBroker, queue: QueueState
) -> None:
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url)
        broker.enqueue(new_message(1))
        proxy.drop_reply(rb"^XADD")

        with pytest.raises(ConnectionClosed):
            broker.enqueue(new_message(2))
        broker.enqueue(new_message(3))
        broker.close()

    assert [message.args for message in queue.messages()] == [(1,), (2,), (3,)]


def test_lost_reply_to_a_delayed_message_doubles_nothing(
    server: Server, make_broker: MakeBroker, queue: QueueState
) -> None:
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url, enqueue_timeout=0)
        broker.enqueue(new_message(1), delay=60_000)
        proxy.drop_reply(rb"^EVALSHA")

        with pytest.raises(ConnectionClosed):
            broker.enqueue(new_message(2), delay=60_000)
        broker.close()

    assert len(queue.delayed()) == 2


def test_messages_whose_delivery_was_lost_are_handed_out_by_the_next_consumer(
    server: Server, make_broker: MakeBroker, queue: QueueState
) -> None:
    with FaultyProxy(server) as proxy:
        broker = make_broker(url=proxy.url)
        consumer = broker.consume("default", prefetch=10, timeout=100)
        assert next(consumer) is None
        broker.enqueue_many([new_message(number) for number in range(3)])
        proxy.drop_reply(rb"^(EVALSHA .* 3 |XREADGROUP|EVALSHA)")

        with pytest.raises(BrokerConnectionError):
            list(itertools.islice(consumer, 20))
        consumer.close()
        later = broker.consume("default", prefetch=10, timeout=2_000)
        delivered = [next(later) for _ in range(3)]
        for message in delivered:
            assert message is not None
            later.ack(message)
        later.close()
        broker.close()

    assert [message.args[0] for message in delivered if message] == [0, 1, 2]
    assert queue.count() == 0


def test_server_that_hangs_ends_in_a_closed_connection_in_time(own_server: Server) -> None:
    broker = StreamsBroker(url=own_server.url, socket_timeout=0.3)
    broker.enqueue(new_message(1))
    own_server.pause()

    started = time.monotonic()
    with pytest.raises(ConnectionClosed, match=r"[Tt]imeout"):
        broker.enqueue(new_message(2))
    took = time.monotonic() - started
    own_server.resume()

    assert 0.25 <= took <= 2.0
    broker.close()


@pytest.mark.parametrize("refused", ["-eval -evalsha", "-xclaim -xack -xdel", "-@all"])
def test_only_connection_errors_leave_requeue_and_nothing_leaves_close(
    start_server: StartServer, refused: str
) -> None:
    own = start_server()
    admin = own.client()
    admin.execute_command("ACL", "SETUSER", "worker", "on", "nopass", "~*", "&*", "+@all")
    broker = StreamsBroker(url=own.admin_url, username="worker", password="any")
    broker.enqueue_many([new_message(1), new_message(2), new_message(3)])
    consumer = broker.consume("default", prefetch=3, timeout=100)
    acked, unstarted = next(consumer), next(consumer)
    assert acked
    assert unstarted
    admin.execute_command("ACL", "SETUSER", "worker", *refused.split())

    with consumer._holdings.carrying():
        consumer.ack(acked)
    with pytest.raises(BrokerConnectionError):
        consumer.requeue([unstarted])
    consumer.close()
    consumer.close()
    broker.close()

    assert own.client().xlen("{dramatiq-streams:default:0}:lane:default") == 3


def test_errors_of_this_package_are_dramatiqs() -> None:
    import dramatiq

    assert issubclass(StreamsError, dramatiq.DramatiqError)
    assert issubclass(ServerOutOfMemory, BrokerConnectionError)
    assert not issubclass(CommandFailed, BrokerConnectionError)
