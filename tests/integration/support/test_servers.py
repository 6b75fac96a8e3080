import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import redis

from tests.conftest import StartServer
from tests.support.binaries import find_binary
from tests.support.servers import Server, ServerFailed
from tests.support.waiting import wait_until


def test_killed_append_only_server_has_its_data_again(own_server: Server) -> None:
    own_server.client().set("key", "value")

    own_server.kill()
    own_server.start()

    assert own_server.client().get("key") == b"value"


def test_restart_keeps_addresses_and_data(start_server: StartServer) -> None:
    server = start_server(tcp=True)
    server.client().set("key", "value")
    address = server.tcp_url

    server.restart()

    assert server.tcp_url == address
    with redis.Redis.from_url(address) as client:
        assert client.get("key") == b"value"


@pytest.mark.parametrize("appendonly", [True, False])
def test_restart_without_data_starts_empty(start_server: StartServer, appendonly: bool) -> None:
    server = start_server(appendonly=appendonly)
    server.client().set("key", "value")

    server.restart(keep_data=False)

    assert server.client().dbsize() == 0


def test_paused_server_answers_once_resumed(own_server: Server) -> None:
    client = own_server.client(socket_timeout=0.2, retry=None)
    client.ping()

    own_server.pause()
    with pytest.raises(redis.TimeoutError):
        client.ping()
    own_server.resume()

    assert own_server.client().ping()


def test_paused_server_can_be_stopped(own_server: Server) -> None:
    pid = own_server.pid
    own_server.pause()

    own_server.stop()

    assert not psutil.pid_exists(pid)


def test_bad_configuration_line_is_reported_with_the_log() -> None:
    with (
        pytest.raises(ServerFailed, match="no-such-setting"),
        Server(config=["no-such-setting 1"]),
    ):
        pass


def test_unknown_server_name_is_refused_with_the_allowed_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEST_SERVER", "redis5")

    with pytest.raises(ValueError, match=r"'redis5'.*valkey9, redis62, redis70, redis82"):
        find_binary()


@pytest.mark.skipif(sys.platform != "linux", reason="uses the parent-death signal of Linux")
def test_server_dies_with_a_killed_test_run(tmp_path: Path) -> None:
    program = (
        "import time\n"
        "from tests.support.servers import Server\n"
        "server = Server(); server.start(); print(server.pid, flush=True); time.sleep(60)\n"
    )
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(tmp_path)}

    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        server = psutil.Process(int(run.stdout.readline()))
        run.send_signal(signal.SIGKILL)

    wait_until(lambda: not server.is_running(), message="the server is gone")


def test_server_with_a_port_can_be_a_cluster_node(start_server: StartServer) -> None:
    server = start_server(tcp=True, config=["cluster-enabled yes"])

    assert server.client().info("cluster") == {"cluster_enabled": 1}


def test_server_that_cannot_have_its_port_again_says_so(start_server: StartServer) -> None:
    server = start_server(tcp=True)
    server.stop()
    port = server.port

    with socket.create_server(("127.0.0.1", port)), pytest.raises(ServerFailed, match="in use"):
        server.start()
    server.start()

    assert server.port == port
