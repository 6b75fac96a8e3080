"""A connection is left when its server turns out to be no master any more."""

from collections.abc import Callable

import pytest
from dramatiq.errors import ConnectionFailed

from dramatiq_streams.connections import Connections
from dramatiq_streams.executor import Executor
from tests.conftest import StartServer
from tests.support.servers import Server


class _NeverRings:
    def seconds_left(self) -> float:
        return 60.0

    def ring(self) -> None:
        raise AssertionError("it rings")


def execute(executor: Executor) -> None:
    executor.execute("SET", "key", "value")


def execute_script(executor: Executor) -> None:
    executor.execute("EVAL", "return redis.call('SET', KEYS[1], 'value')", 1, "key")


def execute_blocking(executor: Executor) -> None:
    executor.execute_blocking("BLPOP", "key", 5, alarm=_NeverRings())


def execute_many(executor: Executor) -> None:
    replies = executor.execute_many([("GET", "key"), ("SET", "key", "value"), ("GET", "key")])
    assert [reply for reply in replies if not isinstance(reply, Exception)] == [None, None]
    raise replies[1]


@pytest.fixture
def demoted(start_server: StartServer) -> Server:
    """A server that is a master now, and that the test makes a replica."""
    return start_server()


@pytest.mark.parametrize("write", [execute, execute_script, execute_blocking, execute_many])
def test_connection_is_closed_when_its_server_refuses_writes(
    demoted: Server, write: Callable[[Executor], None]
) -> None:
    connections = Connections(url=demoted.admin_url, client=None, parameters={})
    executor = connections.shared()
    before = executor.execute("CLIENT", "ID")
    demoted.client().replicaof("127.0.0.1", 1)

    with pytest.raises(ConnectionFailed):
        write(executor)

    assert executor.execute("CLIENT", "ID") != before
    executor.close()


def test_idle_connections_are_closed_with_it(demoted: Server) -> None:
    executor = Connections(url=demoted.admin_url, client=None, parameters={}).shared()
    idle = [executor._connect()[1] for _ in range(3)]
    for connection in idle:
        executor._give_back(connection, 0)
    demoted.client().replicaof("127.0.0.1", 1)

    with pytest.raises(ConnectionFailed):
        execute(executor)

    assert [connection._sock for connection in idle] == [None] * 3
    executor.close()


def test_connection_is_kept_when_a_command_is_refused_for_another_reason(demoted: Server) -> None:
    executor = Connections(url=demoted.admin_url, client=None, parameters={}).dedicated()
    before = executor.execute("CLIENT", "ID")

    with pytest.raises(Exception, match=r"no such command|unknown command"):
        executor.execute("NONSENSE")

    assert executor.execute("CLIENT", "ID") == before
    executor.close()
