"""What Prometheus is told is what happened."""

import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import dramatiq
import prometheus_client as prometheus
import pytest
import redis
from dramatiq.broker import MessageProxy
from prometheus_client.parser import text_string_to_metric_families

from dramatiq_streams import StreamsBroker, clock
from dramatiq_streams.connections import Connections
from dramatiq_streams.events import Event
from dramatiq_streams.executor import Executor
from dramatiq_streams.keys import GROUP, queue_keys
from dramatiq_streams.lanes import DEFAULT_LANES
from dramatiq_streams.metrics import Metrics, declared
from dramatiq_streams.metrics.collector import QueueCollector
from tests.conftest import MakeBroker, MakeWorker, StartCommand, StartServer
from tests.contract.queue_state import new_message
from tests.support.processes import start_process
from tests.support.waiting import wait_until

ACTOR = {"queue_name": "default", "actor_name": "work"}
QUEUE = {"queue_name": "default"}


class Told:
    """What a registry tells."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        self.middleware = Metrics(registry=self.registry)

    def __call__(self, name: str, labels: dict[str, str] | None = None) -> float:
        return self.registry.get_sample_value(f"dramatiq_streams_{name}", labels or {}) or 0.0


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def counted(make_broker: MakeBroker, told: Told) -> StreamsBroker:
    """A broker with short leases that counts, as a worker's does."""
    broker = make_broker(middleware=[told.middleware], lease=1_000)
    broker.emit_before("worker_boot", None)
    return broker


def test_run_messages_are_counted_and_timed(
    make_broker: MakeBroker, make_worker: MakeWorker, told: Told
) -> None:
    broker = make_broker(middleware=[told.middleware, dramatiq.middleware.Retries()])

    @dramatiq.actor(broker=broker, max_retries=1, min_backoff=1, max_backoff=1)
    def work(number: int) -> None:
        if number == 2:
            raise RuntimeError

    work.send(1)
    work.send(2)
    make_worker(broker)
    broker.join("default", timeout=10_000)

    assert told("deliveries_total", ACTOR) == 3
    assert told("redeliveries_total", ACTOR) == 0
    wait_until(lambda: told("run_seconds_count", ACTOR) == 3, message="all runs are timed")
    assert told("wait_seconds_count", ACTOR) == 3
    assert abs(told("last_fetch_timestamp_seconds", QUEUE) - time.time()) < 5


def test_wait_is_measured_by_the_servers_clock(
    counted: StreamsBroker, make_worker: MakeWorker, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "wall_ms", lambda: 0)

    @dramatiq.actor(broker=counted)
    def work() -> None:
        pass

    begun = time.monotonic()
    counted.enqueue(work.message())
    wait_until(lambda: time.monotonic() - begun > 0.3, message="it has waited")
    make_worker(counted)
    counted.join("default", timeout=10_000)

    # A reply that comes late makes the server's clock seem to be behind by as much.
    assert 0.1 <= told("wait_seconds_sum", ACTOR) <= time.monotonic() - begun


def test_message_that_wakes_a_blocked_consumer_has_hardly_waited(
    counted: StreamsBroker, make_worker: MakeWorker, told: Told, redis_client: redis.Redis
) -> None:
    @dramatiq.actor(broker=counted)
    def work() -> None:
        pass

    make_worker(counted, timeout=1_000)
    wait_until(lambda: told("last_fetch_timestamp_seconds", QUEUE) > 0, message="it reads")
    wait_until(lambda: redis_client.info("clients")["blocked_clients"], message="it is blocked")
    work.send()
    counted.join("default", timeout=10_000)

    assert told("wait_seconds_count", ACTOR) == 1
    assert told("wait_seconds_sum", ACTOR) < 0.5


def _take_and_die(make_broker: MakeBroker, **options: Any) -> MessageProxy:
    """Have a worker take a message and never be heard of again."""
    broker = make_broker(middleware=[], lease=1_000, **options)
    consumer = broker.consume("default", timeout=2_000)
    broker.enqueue(new_message(1, actor="work"))
    message = next(consumer)
    assert message is not None
    broker._process._caretaker.stop()
    return message


def test_recovered_messages_and_redeliveries_are_counted(
    make_broker: MakeBroker, make_worker: MakeWorker, told: Told
) -> None:
    _take_and_die(make_broker)
    broker = make_broker(middleware=[told.middleware], lease=1_000)

    @dramatiq.actor(broker=broker)
    def work(number: int) -> None:
        pass

    make_worker(broker)
    wait_until(lambda: told("recovered_total", QUEUE) == 1, message="it is recovered")
    broker.join("default", timeout=10_000)

    assert told("redeliveries_total", ACTOR) == 1
    assert told("poisoned_total", QUEUE) == 0


def test_poisoned_messages_are_counted(
    make_broker: MakeBroker, make_worker: MakeWorker, told: Told
) -> None:
    _take_and_die(make_broker, max_deliveries=1)
    broker = make_broker(middleware=[told.middleware], lease=1_000, max_deliveries=1)
    broker.declare_queue("default")

    make_worker(broker)

    wait_until(lambda: told("poisoned_total", QUEUE) == 1, message="it is dead-lettered")
    assert told("recovered_total", QUEUE) == 0


def test_counters_of_a_queue_are_0_before_anything_has_happened(
    make_broker: MakeBroker, told: Told
) -> None:
    broker = make_broker(middleware=[told.middleware])
    broker.declare_queue("default")
    broker.emit_before("worker_boot", None)
    broker.declare_queue("late")

    names = [metric.exposed_name for metric in declared.QUEUE_COUNTERS]
    assert {"dramatiq_streams_poisoned_total", "dramatiq_streams_leases_lost_total"} <= set(names)
    for queue in ("default", "late"):
        values = [told.registry.get_sample_value(name, {"queue_name": queue}) for name in names]
        assert values == [0] * len(names)


def test_queue_that_is_declared_again_keeps_its_counts(counted: StreamsBroker, told: Told) -> None:
    counted.declare_queue("default")
    counted.events.tell(Event.POISONED, "default")

    counted.emit_after("declare_queue", "default")

    assert told("poisoned_total", QUEUE) == 1


def test_lost_leases_and_late_acks_are_counted(
    counted: StreamsBroker, told: Told, redis_client: redis.Redis, namespace: str
) -> None:
    consumer = counted.consume("default", timeout=2_000)
    counted.enqueue(new_message(1))
    message = next(consumer)
    assert message is not None
    lane = queue_keys(namespace, "default", tuple(DEFAULT_LANES)).lanes[1]
    redis_client.xclaim(lane, GROUP, "thief", 0, [message.entry.entry_id])

    wait_until(lambda: told("leases_lost_total", QUEUE) == 1, message="the loss is noticed")
    assert told("ack_after_lease_lost_total", QUEUE) == 0
    consumer.ack(message)

    assert told("ack_after_lease_lost_total", QUEUE) == 1
    consumer.close()


def test_errors_and_reconnects_are_counted(
    start_server: StartServer, make_broker: MakeBroker, told: Told
) -> None:
    own = start_server(appendonly=True)
    broker = make_broker(url=own.url, middleware=[told.middleware], enqueue_timeout=0)
    broker.emit_before("worker_boot", None)
    broker.enqueue(new_message(1))
    own.stop()
    with pytest.raises(dramatiq.errors.BrokerConnectionError):
        broker.enqueue(new_message(2))
    errors = told("redis_errors_total", {"error": "ConnectionFailed"})
    assert errors + told("redis_errors_total", {"error": "ConnectionClosed"}) > 0
    assert told("redis_reconnects_total") == 0

    own.start()
    broker.enqueue(new_message(3))

    assert told("redis_reconnects_total") == 1


def test_two_brokers_of_a_process_share_their_metrics(make_broker: MakeBroker) -> None:
    registry = prometheus.CollectorRegistry()
    for _ in range(2):
        broker = make_broker(middleware=[Metrics(registry=registry)])
        broker.emit_before("worker_boot", None)

    assert registry.get_sample_value("dramatiq_streams_redis_reconnects_total") == 0


_WORKERS = """
import os
import dramatiq
from dramatiq.middleware import default_middleware
from dramatiq.middleware.prometheus import Prometheus
from dramatiq_streams import StreamsBroker
from dramatiq_streams.metrics import Metrics, declared

made = {middleware}
broker = StreamsBroker(
    url=os.environ["TEST_URL"],
    namespace=os.environ["TEST_NAMESPACE"],
    middleware=[*made, *[make() for make in default_middleware if make is not Prometheus]],
)
dramatiq.set_broker(broker)

@dramatiq.actor
def work(number):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("middleware", ["Prometheus(), Metrics()", "Metrics(), Prometheus()"])
def test_dramatiqs_own_server_exposes_all_worker_processes(
    cli: StartCommand, broker: StreamsBroker, tmp_path: Any, free_port: int, middleware: str
) -> None:
    directory = tmp_path / "metrics"
    cli(
        _WORKERS.replace("{middleware}", f"[{middleware}]"),
        processes=2,
        environment={
            "dramatiq_prom_db": str(directory),
            "dramatiq_prom_host": "127.0.0.1",
            "dramatiq_prom_port": str(free_port),
        },
    )
    broker.enqueue_many([new_message(n, actor="work") for n in range(20)])
    broker.join("default", timeout=20_000)

    def read() -> dict[tuple[str, str], float]:
        try:
            return _scrape(f"http://127.0.0.1:{free_port}")
        except urllib.error.URLError:  # dramatiq starts its server beside its workers
            return {}

    wait_until(
        lambda: read().get(("dramatiq_streams_run_seconds_count", "work")) == 20,
        message="all runs are exposed",
    )
    assert read()["dramatiq_streams_deliveries_total", "work"] == 20
    assert read()["dramatiq_messages_total", "work"] == 20
    assert read()["dramatiq_streams_poisoned_total", ""] == 0


def _scrape(url: str) -> dict[tuple[str, str], float]:
    """The samples by name and actor, or lane, or nothing."""
    with urllib.request.urlopen(url, timeout=10) as reply:
        text = reply.read().decode()
    return {
        (
            sample.name,
            sample.labels.get("actor_name") or sample.labels.get("lane", ""),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def executor(server: Any) -> Iterator[Executor]:
    connections = Connections(url=server.url, client=None, parameters={})
    executor = connections.dedicated()
    yield executor
    executor.close()


def test_queues_are_exposed_by_lane(
    broker: StreamsBroker, executor: Executor, namespace: str
) -> None:
    for lane in ("high", "low", "low"):
        broker.enqueue(new_message(1, lane=lane))
    broker.enqueue(new_message(2), delay=60_000)
    consumer = broker.consume("default", prefetch=1, timeout=2_000)
    taken = next(consumer)
    assert taken is not None
    registry = prometheus.CollectorRegistry()
    registry.register(QueueCollector(executor, namespace))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"dramatiq_streams_{name}", {**QUEUE, **labels})

    assert [value("ready_messages", lane=lane) for lane in DEFAULT_LANES] == [0, 0, 2]
    assert [value("pending_messages", lane=lane) for lane in DEFAULT_LANES] == [1, 0, 0]
    wait_until(lambda: value("oldest_ready_age_seconds", lane="low"), message="it ages")
    wait_until(lambda: value("oldest_pending_age_seconds", lane="high"), message="it ages")
    assert value("oldest_ready_age_seconds", lane="high") == 0
    assert (value("delayed_messages"), value("dead_messages")) == (1, 0)
    consumer.nack(taken)
    assert value("dead_messages") == 1
    assert (value("paused"), registry.get_sample_value("dramatiq_streams_up")) == (0, 1)
    consumer.close()


class CountingExecutor(Executor):
    """Counts round trips."""

    trips = 0

    def execute(self, *command: Any) -> Any:
        self.trips += 1
        return super().execute(*command)

    def execute_many(self, commands: Sequence[Any]) -> list[Any]:
        self.trips += 1
        return super().execute_many(commands)


def test_all_queues_are_looked_at_in_one_pipelined_call(
    broker: StreamsBroker, namespace: str
) -> None:
    for number in range(20):
        broker.enqueue(new_message(1, queue=f"queue{number}"))
    executor = CountingExecutor(broker.client.connection_pool)

    families = list(QueueCollector(executor, namespace).collect())

    assert executor.trips == 2  # which queues there are, and how they are
    (ready,) = [family for family in families if family.name == declared.READY.name]
    assert sum(sample.value for sample in ready.samples) == 20


def test_exporter_serves_the_queues(
    broker: StreamsBroker, server: Any, namespace: str, tmp_path: Any
) -> None:
    broker.enqueue(new_message(1))
    log = tmp_path / "log"
    main = "from dramatiq_streams.cli import main; raise SystemExit(main())"
    command = [sys.executable, "-c", main, "exporter", "--port", "0"]
    where = ["--url", server.url, "--namespace", namespace]
    process = start_process([*command, *where], log=log, cwd=tmp_path)
    try:
        wait_until(lambda: "/metrics\n" in log.read_text(), message="it tells where it listens")

        told = _scrape(log.read_text().strip())
    finally:
        process.terminate()
    assert told["dramatiq_streams_ready_messages", "default"] == 1
    assert process.wait(timeout=10) == 0


def test_server_that_is_away_is_exposed_as_down(start_server: StartServer, namespace: str) -> None:
    own = start_server()
    executor = Connections(url=own.url, client=None, parameters={}).dedicated()
    registry = prometheus.CollectorRegistry()
    registry.register(QueueCollector(executor, namespace))
    own.stop()

    assert registry.get_sample_value("dramatiq_streams_up") == 0

    own.start()
    assert registry.get_sample_value("dramatiq_streams_up") == 1
    executor.close()
