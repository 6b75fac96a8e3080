import time
from collections.abc import Iterator

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.conftest import StartServer
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server


@pytest.fixture
def proxy(server: Server) -> Iterator[FaultyProxy]:
    with FaultyProxy(server) as started:
        yield started


@pytest.fixture(params=[2, 3])
def client(proxy: FaultyProxy, request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(
        proxy.url, retry=Retry(NoBackoff(), 0), protocol=request.param
    ) as started:
        yield started


@pytest.fixture
def key(namespace: str) -> str:
    return f"{{{namespace}:proxy:0}}:key"


def test_everything_passes_when_nothing_is_broken(client: redis.Redis, key: str) -> None:
    value = b"\r\n$5\r\n" * 100_000

    pipeline = client.pipeline()
    pipeline.set(key, value)
    pipeline.get(key)
    pipeline.rpush(f"{key}2", "a", "b")
    pipeline.lrange(f"{key}2", 0, -1)
    replies = pipeline.execute()

    assert replies == [True, value, 2, [b"a", b"b"]]
    assert client.config_get("maxmemory") == {"maxmemory": "0"}


def test_dropped_request_never_reaches_the_server(
    proxy: FaultyProxy, client: redis.Redis, redis_client: redis.Redis, key: str
) -> None:
    proxy.drop_before(rb"^INCRBY ")

    with pytest.raises(redis.ConnectionError):
        client.incr(key)

    assert redis_client.get(key) is None
    assert proxy.counts["drop_before"] == 1
    assert client.incr(key) == 1


def test_dropped_reply_comes_after_the_write(
    proxy: FaultyProxy, client: redis.Redis, redis_client: redis.Redis, key: str
) -> None:
    proxy.drop_reply(rb"^INCRBY ")

    with pytest.raises(redis.ConnectionError):
        client.incr(key)

    assert redis_client.get(key) == b"1"
    assert proxy.counts["drop_reply"] == 1
    assert client.incr(key) == 2


def test_fault_strikes_as_often_as_told(proxy: FaultyProxy, client: redis.Redis, key: str) -> None:
    proxy.drop_reply(rb"^INCRBY ", times=2)

    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            client.incr(key)

    assert client.incr(key) == 3
    assert proxy.commands["INCRBY"] == 3


def test_delayed_reply_runs_into_the_clients_timeout(proxy: FaultyProxy, key: str) -> None:
    proxy.delay_replies(30, pattern=rb"^GET ")

    with (
        redis.Redis.from_url(proxy.url, retry=None, socket_timeout=0.2) as client,
        pytest.raises(redis.TimeoutError),
    ):
        client.get(key)

    assert proxy.counts["delay"] == 1


def test_delay_holds_a_reply_back(proxy: FaultyProxy, client: redis.Redis, key: str) -> None:
    client.ping()
    proxy.delay_replies(0.3, times=1)

    started = time.monotonic()
    client.get(key)

    assert time.monotonic() - started >= 0.3


def test_refusing_proxy_cuts_and_refuses_until_it_accepts(
    proxy: FaultyProxy, client: redis.Redis
) -> None:
    client.ping()

    proxy.refuse()
    with pytest.raises(redis.ConnectionError):
        client.ping()
    with pytest.raises(redis.ConnectionError, match="refused"):
        client.ping()
    proxy.accept()

    assert client.ping()


def test_healed_proxy_forgets_its_faults(proxy: FaultyProxy, client: redis.Redis, key: str) -> None:
    proxy.drop_before(rb"^INCRBY ", times=100)

    proxy.heal()

    assert client.incr(key) == 1


def test_client_of_a_stopped_server_loses_its_connection(start_server: StartServer) -> None:
    server = start_server(tcp=True)
    with FaultyProxy(("127.0.0.1", server.port)) as proxy:
        client = redis.Redis.from_url(proxy.url, retry=Retry(NoBackoff(), 0))
        client.ping()

        server.stop()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        server.start()

        assert client.ping()
        client.close()
