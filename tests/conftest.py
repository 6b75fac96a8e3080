"""The fixtures every test may use: a server, a namespace, brokers, workers, the command line."""

import itertools
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import dramatiq
import dramatiq.broker
import hypothesis
import pytest
import redis

# At the end, so that `tests` is found there and the packages under test where they are installed.
sys.path.append(str(Path(__file__).parents[1]))

from tests.support.binaries import ServerMissing
from tests.support.certificates import Certificates
from tests.support.cli import DramatiqCommand
from tests.support.servers import Server
from tests.support.users import User, user_under_test
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from dramatiq_streams import StreamsBroker
    from tests.support.databases import Database
    from tests.support.postgres import Postgres

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's script has started the tests in the background: what they start would be deaf too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


class StartServer(Protocol):
    """Starts one more server, for one test that stops, kills or pauses it.

    Its URLs are for the user that `TEST_USER` names, unless another one is given.
    """

    def __call__(
        self,
        *,
        config: Sequence[str] = (),
        appendonly: bool = False,
        tcp: bool = False,
        certificates: Certificates | None = None,
        user: User | None = ...,
    ) -> Server: ...


class StartCommand(Protocol):
    """Runs the `dramatiq` command on a module with this source.

    It returns when every worker consumes; with `wait=False` at once, for a command that may die
    while it boots.
    """

    def __call__(
        self,
        source: str,
        *,
        url: str | None = None,
        processes: int = 1,
        threads: int = 2,
        arguments: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        wait: bool = True,
    ) -> DramatiqCommand: ...


# The same examples in every run, however slow the machine: a failure is a change in the code.
hypothesis.settings.register_profile("suite", derandomize=True, deadline=None)
hypothesis.settings.load_profile("suite")

_OUR_THREADS = "dramatiq-streams-"

MakeBroker = Callable[..., "StreamsBroker"]
MakeWorker = Callable[..., dramatiq.Worker]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in `tests/faults` has the marker `faults`; what is slow comes first.

    Otherwise one process would be left with it when the others have nothing more to do.
    """
    for item in items:
        if (Path(__file__).parent / "faults") in item.path.parents:
            item.add_marker("faults")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def _new_server(**options: Any) -> Server:
    try:
        return Server(**{"user": user_under_test(), **options})
    except ServerMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    """The broker's threads end with the test that started them, or it fails."""
    before = set(threading.enumerate())
    yield

    def left() -> list[str]:
        started = set(threading.enumerate()) - before
        return sorted(thread.name for thread in started if thread.name.startswith(_OUR_THREADS))

    wait_until(lambda: not left(), timeout=5, message=f"the broker's threads ended: {left()}")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server that the tests of this process share; nobody stops, pauses or flushes it.

    At the end it has refused no command of the user that `TEST_USER` names: what runs in threads
    of the broker would go on without telling.
    """
    with _new_server(tcp=True) as started:
        yield started
        assert started.refusals == []


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Starts servers that belong to this test alone."""
    servers: list[Server] = []

    def start(**options: Any) -> Server:
        server = _new_server(**options)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def own_server(start_server: StartServer) -> Server:
    """One append-only server of this test alone, to be killed, paused and restarted."""
    return start_server(appendonly=True, tcp=True)


@pytest.fixture
def redis_client(server: Server) -> Iterator[redis.Redis]:
    """A client of the shared server; it returns bytes."""
    with server.client() as client:
        yield client


@pytest.fixture
def namespace(server: Server) -> Iterator[str]:
    """A namespace of this test alone; at the end each of its keys is checked and deleted.

    Every key has to begin with the namespace in an open hash tag: `{namespace:`. One that does not
    could not be told from another application's, and might lie in another slot than its queue.
    """
    name = f"test-{secrets.token_hex(6)}"
    yield name
    with server.client() as client:
        keys = list(client.scan_iter(match=f"*{name}*", count=1000))
        if keys:
            client.delete(*keys)
    stray = sorted(key for key in keys if not key.startswith(b"{%s:" % name.encode()))
    assert not stray, f"keys outside of {{{name}:...}}: {stray}"


@pytest.fixture
def make_broker(server: Server, namespace: str) -> Iterator[MakeBroker]:
    """Makes brokers and sets the last one as dramatiq's own; options are those of StreamsBroker.

    The shared server and the test's namespace are the defaults of `url` and `namespace`.
    """
    from dramatiq_streams import StreamsBroker

    previous = dramatiq.broker.global_broker
    brokers: list[StreamsBroker] = []

    def make(**options: Any) -> StreamsBroker:
        broker = StreamsBroker(**{"url": server.url, "namespace": namespace, **options})
        brokers.append(broker)
        dramatiq.set_broker(broker)
        return broker

    yield make
    dramatiq.broker.global_broker = previous
    for broker in brokers:
        broker.close()


@pytest.fixture
def broker(make_broker: MakeBroker) -> "StreamsBroker":
    """A broker with default options, set as dramatiq's own."""
    return make_broker()


@pytest.fixture
def make_worker(make_broker: MakeBroker) -> Iterator[MakeWorker]:
    """Starts workers in this process: `make_worker(broker, threads=2, timeout=50, prefetch=5)`.

    Without a `prefetch` it is dramatiq's, and the broker holds less while tasks are long.
    """
    workers: list[dramatiq.Worker] = []

    def make(
        broker: dramatiq.Broker,
        *,
        threads: int = 2,
        timeout: int = 50,
        prefetch: int = 0,
        **options: Any,
    ) -> dramatiq.Worker:
        worker = dramatiq.Worker(broker, worker_threads=threads, worker_timeout=timeout, **options)
        worker.queue_prefetch = prefetch or worker.queue_prefetch
        workers.append(worker)
        worker.start()
        return worker

    yield make
    for worker in workers:
        worker.stop(timeout=10_000)


@pytest.fixture
def worker(broker: "StreamsBroker", make_worker: MakeWorker) -> dramatiq.Worker:
    """A started worker with two threads on the default broker."""
    return make_worker(broker)


@pytest.fixture
def cli(server: Server, namespace: str, tmp_path: Path) -> Iterator[StartCommand]:
    """Starts `python -m dramatiq` on a module with the given source.

    The source finds `url` (the shared server's by default) in `os.environ["TEST_URL"]` and this
    test's namespace in `os.environ["TEST_NAMESPACE"]`.
    """
    commands: list[DramatiqCommand] = []
    numbers = itertools.count()

    def start(
        source: str,
        *,
        url: str | None = None,
        environment: dict[str, str] | None = None,
        wait: bool = True,
        **options: Any,
    ) -> DramatiqCommand:
        command = DramatiqCommand(
            source,
            directory=tmp_path / f"cli{next(numbers)}",
            environment={
                "TEST_URL": url or server.url,
                "TEST_NAMESPACE": namespace,
                **(environment or {}),
            },
            **options,
        )
        commands.append(command)
        if wait:
            command.wait_until_booted()
        return command

    yield start
    for command in commands:
        command.kill()


@pytest.fixture(scope="session")
def postgres() -> Iterator["Postgres"]:
    """The PostgreSQL that the tests of this process share, each in a schema of its own."""
    from tests.support.postgres import Postgres, PostgresMissing

    try:
        started = Postgres()
    except PostgresMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    with started:
        yield started


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> "Database":
    """An empty SQL database, of each kind in turn."""
    from tests.support.databases import Database

    if request.param == "sqlite":
        return Database.in_file(tmp_path / "database.sqlite")
    return Database.in_schema(request.getfixturevalue("postgres"), f"t{secrets.token_hex(6)}")
