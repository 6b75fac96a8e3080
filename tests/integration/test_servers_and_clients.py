"""Which servers and connections will do: TLS, given clients, passwords, servers too old."""

from typing import Any

import dramatiq
import pytest
import redis
from dramatiq.errors import ConnectionFailed
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from dramatiq_streams import StreamsBroker, UnsupportedServer
from tests.conftest import MakeBroker, MakeWorker, StartServer
from tests.contract.queue_state import QueueState, new_message
from tests.support.certificates import Certificates
from tests.support.servers import Server


def run_some(broker: StreamsBroker, make_worker: MakeWorker) -> list[int]:
    """Send and run a few messages of every kind; the numbers of those that ran."""
    runs: list[int] = []

    @dramatiq.actor(broker=broker, max_retries=1, min_backoff=1)
    def work(number: int) -> None:
        runs.append(number)
        if number == 3 and runs.count(3) == 1:
            raise ZeroDivisionError

    work.send(1)
    work.send_with_options(args=(2,), delay=20)
    broker.enqueue_many([work.message(3), work.message(4)])
    worker = make_worker(broker)
    broker.join("default", timeout=10_000)
    worker.stop()
    broker.close()
    return sorted(runs)


ALL = [1, 2, 3, 3, 4]


@pytest.mark.parametrize("scheme", ["unix", "redis"])
def test_unix_sockets_and_tcp_will_do(
    server: Server, make_broker: MakeBroker, make_worker: MakeWorker, scheme: str
) -> None:
    url = server.url if scheme == "unix" else server.tcp_url

    assert run_some(make_broker(url=url), make_worker) == ALL


@pytest.mark.parametrize(
    "options",
    [
        {"decode_responses": True},
        {"decode_responses": True, "protocol": 3},
        {"retry": Retry(ExponentialBackoff(), 5)},
        {"retry_on_error": [redis.ConnectionError], "health_check_interval": 1},
        {"encoding": "latin-1"},
        {"client_name": "ours", "socket_keepalive": True, "socket_timeout": 3},
    ],
    ids=" ".join,
)
def test_any_client_will_do_and_its_retries_repeat_nothing(
    server: Server, make_broker: MakeBroker, make_worker: MakeWorker, options: dict[str, Any]
) -> None:
    with redis.Redis(unix_socket_path=server.socket, **options) as client:
        broker = make_broker(url=None, client=client)
        retries = broker.client.connection_pool.connection_kwargs["retry"].get_retries()

        assert retries == 0
        assert run_some(broker, make_worker) == ALL
        assert isinstance(client.ping(), bool)


def test_single_connection_clients_pool_is_not_used_up(
    server: Server, make_broker: MakeBroker, make_worker: MakeWorker
) -> None:
    pool = redis.BlockingConnectionPool.from_url(server.tcp_url, max_connections=1)
    with redis.Redis.from_pool(pool) as client:
        assert run_some(make_broker(url=None, client=client), make_worker) == ALL


def test_password_and_database_of_the_url_are_used(
    start_server: StartServer, make_worker: MakeWorker
) -> None:
    own = start_server(config=["requirepass sesame"], tcp=True, user=None)
    url = own.tcp_url.replace("redis://", "redis://:sesame@") + "/5"
    broker = StreamsBroker(url=url)
    dramatiq.set_broker(broker)

    broker.enqueue(new_message(1))

    with own.client(password="sesame", db=5) as client:
        assert QueueState(client, "dramatiq-streams").count() == 1
    broker.flush("default")
    assert run_some(broker, make_worker) == ALL


def test_server_without_xautoclaim_is_named_with_its_version(start_server: StartServer) -> None:
    own = start_server(config=['rename-command XAUTOCLAIM ""'])
    version = own.client().info("server")["redis_version"]
    broker = StreamsBroker(url=own.url)

    for call in (
        lambda: broker.enqueue(new_message(1)),
        lambda: broker.enqueue(new_message(1), delay=5),
        lambda: broker.enqueue_many([new_message(1)]),
        lambda: broker.consume("default"),
    ):
        with pytest.raises(UnsupportedServer, match="XAUTOCLAIM") as caught:
            call()
        assert version in str(caught.value)
        assert "6.2" in str(caught.value)
    broker.close()


def test_tls_encrypts_and_refuses_strangers(
    start_server: StartServer, certificates: Certificates, make_worker: MakeWorker
) -> None:
    own = start_server(tcp=True, certificates=certificates)
    broker = StreamsBroker(url=own.tcp_url, ssl_ca_certs=str(certificates.authority))
    dramatiq.set_broker(broker)

    assert run_some(broker, make_worker) == ALL

    with pytest.raises(ConnectionFailed, match=r"[Cc]ertificate"):
        StreamsBroker(url=own.tcp_url, enqueue_timeout=0).enqueue(new_message(1))
    plain = own.tcp_url.replace("rediss", "redis")
    with pytest.raises(ConnectionFailed):
        StreamsBroker(url=plain, socket_timeout=2, enqueue_timeout=0).enqueue(new_message(1))
    assert own.client().xlen("{dramatiq-streams:default:0}:lane:default") == 0
