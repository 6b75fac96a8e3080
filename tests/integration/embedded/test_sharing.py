"""One server per directory: who starts it, who shares it, and what they get."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

from dramatiq_streams.embedded import stop
from tests.support.waiting import wait_until

_FORKING_USER = """
import os, sys, redis
from dramatiq_streams.embedded import embedded_pool_parameters
client = redis.Redis(connection_pool=redis.ConnectionPool(**embedded_pool_parameters(sys.argv[1])))
print(client.client_id(), flush=True)
if os.fork() == 0:
    print(client.client_id(), flush=True)
    os._exit(0)
os.wait()
print(client.client_id())
"""

Connect = Callable[..., redis.Redis]


def _pid(client: redis.Redis) -> int:
    return client.info("server")["process_id"]


def _starts(directory: Path) -> int:
    return (directory / "server.log").read_text().count("started server")


def test_nothing_is_made_or_started_before_the_first_command(
    connect: Connect, directory: Path
) -> None:
    client = connect()

    made_by_construction = directory.exists()
    client.ping()

    assert not made_by_construction
    assert directory.exists()


def test_server_is_private_and_append_only(connect: Connect, directory: Path) -> None:
    client = connect()

    client.set("key", "value")

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert modes["valkey.sock"] == modes["appendonlydir"] == 0o700
    assert {modes[name] for name in ("server.log", "running.lock", "starting.lock")} == {0o600}
    settings = client.config_get("appendonly", "appendfsync", "save", "port")
    assert settings == {"appendonly": "yes", "appendfsync": "everysec", "save": "", "port": "0"}


def test_ten_processes_at_once_start_one_server(
    start_user: Callable[..., Any], directory: Path
) -> None:
    users = [start_user() for _ in range(10)]

    pairs = {user.pair() for user in users}

    assert len(pairs) == 1
    assert _starts(directory) == 1


def test_many_threads_at_once_start_one_server(connect: Connect, directory: Path) -> None:
    clients = [connect() for _ in range(20)]

    with ThreadPoolExecutor(max_workers=len(clients)) as threads:
        pids = set(threads.map(_pid, clients))

    assert len(pids) == 1
    assert _starts(directory) == 1


def test_every_spelling_of_a_directory_is_the_same_server(
    connect: Connect, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(directory)
    spellings = [str(directory), f"{directory}/", "data", "./x/../data/", "link"]

    pids = {_pid(connect(f"embedded://{spelling}")) for spelling in spellings}

    assert len(pids) == 1


def test_directory_too_long_for_a_socket_works_by_every_spelling(
    connect: Connect, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = directory / ("d" * 120) / ("e" * 120)
    (tmp_path / "s").symlink_to(long)

    with tempfile.TemporaryDirectory() as links:
        monkeypatch.setattr("tempfile.tempdir", links)
        pids = {_pid(connect(f"embedded://{spelling}")) for spelling in (long, f"{tmp_path}/s")}
        made = [path.readlink() for path in Path(links).glob("dramatiq-streams-*/*")]
        stopped = stop(long)

    assert len(pids) == 1
    assert long in made
    assert stopped


def test_private_links_of_another_user_are_not_followed(
    connect: Connect, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    links = tmp_path / f"dramatiq-streams-{os.geteuid()}"
    links.mkdir(mode=0o755)

    with pytest.raises(redis.ConnectionError, match=r"mode 700, but is of user .* mode 755"):
        connect(f"embedded://{directory / ('d' * 120)}").ping()


def test_data_survives_a_stop_and_a_start(
    connect: Connect, directory: Path, pair_of: Callable[..., Any]
) -> None:
    client = connect()
    client.xadd("stream", {"m": "1"})
    before = pair_of(client)

    stopped = stop(directory)
    entries = client.xlen("stream")

    before.wait_until_gone()
    assert stopped
    assert entries == 1
    assert pair_of(client) != before


def test_fork_of_a_user_has_connections_of_its_own(directory: Path) -> None:
    program = [sys.executable, "-c", _FORKING_USER, f"embedded://{directory}"]

    output = subprocess.run(program, capture_output=True, text=True, timeout=20, check=True).stdout

    parent_before, child, parent_after = output.split()
    assert parent_before == parent_after != child
    assert _starts(directory) == 1


def test_options_of_redis_py_are_kept(connect: Connect) -> None:
    client = connect(
        db=3, client_name="me", socket_timeout=7.0, health_check_interval=9, protocol=2
    )
    client.set("key", "value")

    connection: Any = client.connection_pool.get_connection()
    timeout = connection._sock.gettimeout()
    client.connection_pool.release(connection)

    assert client.client_list()[-1]["name"] == "me"
    assert client.info("keyspace")["db3"]["keys"] == 1
    assert timeout == 7.0


def test_server_that_is_still_loading_is_waited_for(
    connect: Connect, directory: Path, start_loading_server: Callable[[], redis.Redis]
) -> None:
    # While it reads, the server answers after each 1024th command.
    with connect().pipeline(transaction=False) as commands:
        for number in range(12_000):
            commands.set(f"key{number}", number)
        commands.execute()
    stop(directory)

    slow = start_loading_server()
    wait_until(lambda: _is_loading(slow), message="the server is loading")
    keys = connect().dbsize()

    assert keys == 12_000


def _is_loading(client: redis.Redis) -> bool:
    try:
        client.ping()
    except redis.BusyLoadingError:
        return True
    except redis.ConnectionError:
        return False
    raise AssertionError("the server finished loading before the test could see it")


@pytest.mark.parametrize(
    ("path", "complaint"),
    [("/proc/nowhere", "cannot make"), ("{file}/data", "cannot make"), ("{open}", "every user")],
)
def test_unusable_directory_is_named_with_the_reason(
    connect: Connect, tmp_path: Path, path: str, complaint: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    path = path.format(file=tmp_path / "file", open=tmp_path / "open")

    with pytest.raises(redis.ConnectionError, match=complaint) as refused:
        connect(f"embedded://{path}").ping()

    assert path in str(refused.value)


def test_server_that_cannot_start_is_reported_at_once_with_its_log(
    connect: Connect, directory: Path
) -> None:
    connect().set("key", "value")
    stop(directory)
    (directory / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")

    with pytest.raises(redis.ConnectionError, match="did not start") as failed:
        connect(start_timeout=10).ping()

    assert "AOF manifest" in str(failed.value)
    assert str(directory) in str(failed.value)
