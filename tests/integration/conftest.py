"""The queue of a test as the server has it, and backends of dramatiq's own on the same server."""

import socket
from collections.abc import Iterator

import pytest
import redis
from dramatiq.rate_limits.backends import RedisBackend as RateLimiterRedisBackend
from dramatiq.results.backends import RedisBackend as ResultRedisBackend

from tests.contract.queue_state import QueueState
from tests.support.binaries import ServerMissing, find_binary
from tests.support.certificates import Certificates, OpensslMissing
from tests.support.servers import Server


@pytest.fixture
def queue(redis_client: redis.Redis, namespace: str) -> QueueState:
    """The queue "default" as the server has it."""
    return QueueState(redis_client, namespace)


@pytest.fixture
def result_backend(server: Server, namespace: str) -> Iterator[ResultRedisBackend]:
    """Results in Redis, under this test's namespace."""
    with server.client() as client:
        yield ResultRedisBackend(client=client, namespace=f"{{{namespace}:results}}")


@pytest.fixture
def limiter_backend(server: Server) -> Iterator[RateLimiterRedisBackend]:
    """Rate limits in Redis; their keys are the test's affair."""
    with server.client() as client:
        yield RateLimiterRedisBackend(client=client)


@pytest.fixture
def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """For servers that speak TLS; skips the test where the one under test does not."""
    try:
        binary = find_binary()
        if not binary.has_tls():
            pytest.skip(f"{binary.name} was built without TLS")
        return Certificates(tmp_path_factory.mktemp("certificates"))
    except (ServerMissing, OpensslMissing) as error:
        pytest.skip(str(error))
