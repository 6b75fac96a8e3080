"""The user that the security page gives to the broker can do what is needed, and nothing else."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq.errors import BrokerConnectionError
from dramatiq.middleware import AgeLimit, Retries

from dramatiq_streams import Claims, StreamsBroker
from dramatiq_streams.claims.bloom import BloomClaims
from dramatiq_streams.cli import main
from dramatiq_streams.connections import Connections
from dramatiq_streams.events import Event
from dramatiq_streams.keys import queue_keys
from dramatiq_streams.lanes import DEFAULT_LANES
from dramatiq_streams.metrics.collector import QueueCollector
from dramatiq_streams.middleware import Idempotency
from dramatiq_streams.options import DEFAULT_NAMESPACE
from tests.conftest import MakeBroker, MakeWorker, StartServer
from tests.contract.queue_state import new_message
from tests.support.locking import refused_to_lockers
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.users import (
    CLAIMS,
    IDEMPOTENCY,
    documented_user,
    lock_server_user,
    rights_beside,
)
from tests.support.waiting import wait_until

USER = documented_user()


@pytest.fixture
def guarded(start_server: StartServer) -> Server:
    """A server of this test alone, with the documented user."""
    own = start_server(appendonly=True, user=USER)
    client = own.client()
    client.execute_command("ACL", "LOG", "RESET")
    client.config_resetstat()
    return own


def _version(client: redis.Redis) -> tuple[int, ...]:
    major, minor = client.info("server")["redis_version"].split(".")[:2]
    return int(major), int(minor)


def _used(client: redis.Redis) -> set[str]:
    """Every command that was run, and its subcommand where the server counts these."""
    names = {name.removeprefix("cmdstat_") for name in client.info("commandstats")}
    return names | {name.partition("|")[0] for name in names}


def _unused(server: Server, rights: Iterable[str]) -> set[str]:
    """Those of *rights* that nobody has needed."""
    client = server.client()
    needed = {right.removeprefix("+") for right in rights}
    if _version(client) < (7, 0):  # it does not count subcommands
        needed = {name.partition("|")[0] for name in needed}
    if _version(client) == (7, 0):
        needed.discard("client|setinfo")
    return needed - _used(client)


def test_everything_works_and_every_right_is_needed(
    guarded: Server,
    make_broker: MakeBroker,
    make_worker: MakeWorker,
    tmp_path: Path,
) -> None:
    make: Callable[..., StreamsBroker] = lambda **options: make_broker(  # noqa: E731
        url=guarded.url,
        namespace=DEFAULT_NAMESPACE,
        lease=1_000,
        disconnect_grace=1_000,
        **options,
    )
    client = guarded.client()

    _send_and_run(make, make_worker)
    _die_and_recover(make, make_worker, client)
    _wait_for_replicas_and_spool(make, guarded, tmp_path / "spool")
    _operate(guarded)
    _collect(guarded)

    refused = [(each["reason"], each["object"]) for each in client.acl_log()]
    assert refused == []
    assert _unused(guarded, USER.granted()) == set()


def test_claims_need_the_rights_that_are_documented_beside(guarded: Server) -> None:
    exact, bloom = rights_beside(CLAIMS)

    with redis.Redis.from_url(guarded.url) as client:
        with guarded.granting(exact), Claims(client, "links", ttl=60_000) as claims:
            assert claims.claim(["a"]) == [True]
            assert (claims.release(["a"]), claims.count(), claims.prune()) == (1, 0, 0)
            claims.clear()
        assert _unused(guarded, exact) == set()
        guarded.client().config_resetstat()
        with guarded.granting(bloom), BloomClaims(client, "links", capacity=100) as filtered:
            assert filtered.claim(["a"]) == [True]
            assert filtered.count() == 1
            filtered.clear()
        assert _unused(guarded, bloom) == set()

    assert guarded.refusals == []


def test_idempotency_needs_the_rights_that_are_documented_beside(
    guarded: Server, start_server: StartServer, make_broker: MakeBroker, make_worker: MakeWorker
) -> None:
    own, others = rights_beside(IDEMPOTENCY)
    locker = start_server(user=lock_server_user(f"~{{{DEFAULT_NAMESPACE}:others}}:lock:*"))
    runs: list[str] = []

    def send_twice(key: str, masters: list[str] | None, broker: StreamsBroker) -> None:
        broker.add_middleware(Idempotency(masters, lease=600, key_prefix=key), before=AgeLimit)
        actor = _holding(broker, runs)
        worker = make_worker(broker)
        for _ in range(2):
            actor.send(key)
        broker.join("default", timeout=20_000)
        worker.stop()
        broker.close()

    make = partial(make_broker, url=guarded.url, namespace=DEFAULT_NAMESPACE)
    with guarded.granting(own):
        send_twice("own", None, make())
    send_twice("others", [locker.url], make())

    assert runs == ["own", "others"]
    assert guarded.refusals == []
    assert refused_to_lockers([locker]) == set()
    assert _unused(guarded, own) == set()
    assert _unused(locker, others) == set()


def _holding(broker: StreamsBroker, runs: list[str]) -> dramatiq.Actor[..., Any]:
    """An actor with a key, that runs until its lock was extended."""
    extended = threading.Event()

    def note(event: Event, label: str, amount: float) -> None:
        if event is Event.LOCK_EXTENDED:
            extended.set()

    def hold(key: str) -> None:
        runs.append(key)
        assert extended.wait(20)

    broker.events.listen(note)
    return dramatiq.actor(broker=broker, idempotency_key="{key}")(hold)


def _send_and_run(make: Callable[..., StreamsBroker], make_worker: MakeWorker) -> None:
    """Messages at once, many and delayed; retries and dead letters; flush, join, requeue."""
    broker = make(middleware=[Retries(min_backoff=1, max_backoff=1)])
    runs: list[int] = []

    @dramatiq.actor(broker=broker, max_retries=1)
    def work(number: int) -> None:
        runs.append(number)
        if number == 3:
            raise ZeroDivisionError

    work.send(1)
    work.send_with_options(args=(2,), delay=50)
    broker.enqueue_many([work.message(3), work.message(4)])
    broker.client.xadd(f"{{{DEFAULT_NAMESPACE}:default:0}}:lane:low", {"m": "no message"})
    worker = make_worker(broker)
    broker.join("default", timeout=20_000)
    worker.stop()
    assert sorted(runs) == [1, 2, 3, 3, 4]

    other = make(middleware=[])
    other.enqueue(new_message(5))
    consumer = other.consume("default", timeout=2_000)
    message = next(consumer)
    assert message is not None
    consumer.requeue([message])
    consumer.close()
    other.flush("default")
    waiting = other.consume("idle", prefetch=1, timeout=50)
    assert next(waiting) is None
    waiting.close()
    other.close()


def _die_and_recover(
    make: Callable[..., StreamsBroker], make_worker: MakeWorker, client: redis.Redis
) -> None:
    """A worker that is never heard of again, and another that takes over after its lease."""
    dead = make(middleware=[])
    consumer = dead.consume("default", timeout=2_000)
    dead.enqueue(new_message(1))
    assert next(consumer) is not None
    told = queue_keys(DEFAULT_NAMESPACE, "default", tuple(DEFAULT_LANES)).connections
    wait_until(lambda: client.exists(told), message="it has given a sign of life")
    dead._process._caretaker.stop()
    broker = make(middleware=[])
    runs: list[int] = []

    @dramatiq.actor(broker=broker)
    def work(number: int) -> None:
        runs.append(number)

    worker = make_worker(broker)
    broker.join("default", timeout=20_000)
    assert runs == [1]
    wait_until(
        lambda: "client|list" in _used(client) or _version(client) < (7, 0),
        timeout=20,
        message="the other workers' connections were looked at",
    )
    worker.stop()


def _wait_for_replicas_and_spool(
    make: Callable[..., StreamsBroker], server: Server, path: Path
) -> None:
    waiting = make(middleware=[], wait_replicas=1, wait_timeout=1)
    with contextlib.suppress(BrokerConnectionError):  # there are none
        waiting.enqueue(new_message(1))
    waiting.flush("default")
    with FaultyProxy(server) as proxy:
        broker = StreamsBroker(url=proxy.url, middleware=[], spool=str(path), enqueue_timeout=0)
        proxy.refuse()
        broker.enqueue(new_message(1))
        proxy.accept()
        lane = f"{{{DEFAULT_NAMESPACE}:default:0}}:lane:default"
        wait_until(lambda: server.client().xlen(lane) == 1, timeout=20, message="it is taken in")
        broker.flush("default")
        broker.close()


def _operate(server: Server) -> None:
    """Each action of the command `dramatiq-streams`, but `doctor`, which asks for more."""
    broker = StreamsBroker(url=server.url, middleware=[])
    message = broker.enqueue(new_message(1))
    broker.enqueue(new_message(2), delay=60_000)
    where = ["--url", server.url, "--namespace", DEFAULT_NAMESPACE, "--queue", "default"]

    def run(*arguments: str) -> int:
        return main([*arguments, *where])

    assert run("stats") == 0
    assert run("workers") in {0, 1}
    assert run("health") in {0, 1}
    assert run("messages", "ls") == 0
    assert run("messages", "show", message.message_id) == 0
    assert run("queue", "pause") == 0
    assert run("queue", "resume") == 0
    assert run("messages", "cancel", message.message_id) == 0
    _bury(broker)  # and drop what was cancelled
    assert run("dlq", "ls") == 0
    assert run("dlq", "redrive", "--all") == 0
    _bury(broker)
    assert run("dlq", "purge", "--all") == 0
    _send_once(broker)
    assert run("locks", "ls") == 0
    assert run("locks", "show", "work:k") == 0
    assert run("locks", "release", "work:k") == 0
    broker.flush("default")
    broker.close()


def _send_once(broker: StreamsBroker) -> None:
    """Messages with a unique key: sent twice, started, ended, and forgotten when it is over."""
    for options in ({"unique_for": 60_000}, {"unique_until": "started"}):
        for _ in range(2):
            broker.enqueue(new_message(1, idempotency_key="k", **options))
        consumer = broker.consume("default", timeout=2_000)
        message = next(consumer)
        assert message is not None
        broker.emit_before("process_message", message)
        consumer.ack(message)
        consumer.close()
    broker.enqueue_many([new_message(1, idempotency_key="k", unique_for=60_000)], delay=60_000)
    broker._process.reservations.expire("default")


def _bury(broker: StreamsBroker) -> None:
    """Make a dead letter."""
    broker.enqueue(new_message(9))
    consumer = broker.consume("default", prefetch=10, timeout=2_000)
    message = next(consumer)
    assert message is not None
    consumer.nack(message)
    consumer.close()


def _collect(server: Server) -> None:
    executor = Connections(url=server.url, client=None, parameters={}).dedicated()
    assert len(list(QueueCollector(executor, DEFAULT_NAMESPACE).collect())) > 1
    executor.close()


@pytest.mark.parametrize(
    "command",
    [
        ("GET", "somebody:else"),
        ("XADD", "{dramatiq-streams-of-others:default:0}:lane:low", "*", "m", "x"),
        ("CONFIG", "GET", "requirepass"),
        ("ACL", "LIST"),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("FLUSHALL",),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("SCRIPT", "FLUSH"),
        ("RESTORE", "{dramatiq-streams:default:0}:lane:low", "0", "x"),
        ("PUBLISH", "channel", "text"),
        ("EVAL", "return redis.call('GET', KEYS[1])", "1", "somebody:else"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_nothing_else_is_allowed(guarded: Server, command: tuple[Any, ...]) -> None:
    with (
        guarded.client(username=USER.name, password=USER.password) as client,
        pytest.raises(redis.ResponseError, match=re.compile("permission|NOPERM|can't access")),
    ):
        client.execute_command(*command)
