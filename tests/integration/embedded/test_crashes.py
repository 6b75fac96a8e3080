"""What is left after something was killed: the data, and a server for whoever comes next."""

import fcntl
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from dramatiq_streams.embedded import launching, stop
from tests.support.waiting import wait_until

Connect = Callable[..., redis.Redis]
pytestmark = pytest.mark.faults


def test_killed_server_is_started_again_by_the_next_connect(
    connect: Connect, pair_of: Callable[..., Any]
) -> None:
    client = connect()
    client.set("key", "value")
    before = pair_of(client)

    before.server.kill()
    before.wait_until_gone()
    client.connection_pool.disconnect()
    value = client.get("key")

    assert value == b"value"
    assert pair_of(client) != before


def test_server_is_replaced_for_those_who_come_while_it_is_dying(
    connect: Connect, directory: Path, pair_of: Callable[..., Any]
) -> None:
    clients = [connect() for _ in range(10)]
    before = pair_of(clients[0])
    clients[0].connection_pool.disconnect()

    before.server.kill()
    threads = [threading.Thread(target=client.incr, args=("count",)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)

    before.wait_until_gone()
    assert clients[0].get("count") == b"10"
    assert (directory / "server.log").read_text().count("started server") == 2


def test_server_does_not_outlive_a_killed_supervisor(
    connect: Connect, directory: Path, pair_of: Callable[..., Any]
) -> None:
    client = connect()
    client.set("key", "value")
    pair = pair_of(client)

    pair.supervisor.kill()

    pair.wait_until_gone()
    assert "ready to exit, bye bye" in (directory / "server.log").read_text()
    assert client.get("key") == b"value"


def test_append_only_file_cut_short_by_a_crash_is_read(connect: Connect, directory: Path) -> None:
    client = connect()
    client.set("whole", "value")
    client.set("cut", "value")
    stop(directory)
    (file,) = (directory / "appendonlydir").glob("*.incr.aof")

    os.truncate(file, file.stat().st_size - 3)

    assert client.keys() == [b"whole"]


@pytest.mark.parametrize("kind", ["socket", "file"])
def test_stale_socket_is_in_nobodys_way(connect: Connect, directory: Path, kind: str) -> None:
    directory.mkdir(mode=0o700)
    path = directory / "valkey.sock"
    if kind == "file":
        path.touch()
    else:
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))

    answered = connect().ping()

    assert answered


def test_removed_socket_makes_room_for_a_server_that_can_be_reached(
    connect: Connect, directory: Path, pair_of: Callable[..., Any]
) -> None:
    inside = connect()
    inside.set("key", "value")
    before = pair_of(inside)

    (directory / "valkey.sock").unlink()
    value = connect().get("key")

    before.wait_until_gone()
    assert value == b"value"


def test_turn_held_by_the_fork_of_a_killed_starter_does_not_block(
    connect: Connect, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "_MOST_TURN_S", 0.1)
    directory.mkdir(mode=0o700)

    with (directory / "starting.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        answered = connect(start_timeout=10).ping()

    assert answered


def test_supervisor_goes_on_after_its_connection_was_killed(
    connect: Connect, pair_of: Callable[..., Any]
) -> None:
    client = connect(idle_timeout=0.2)
    pair = pair_of(client)

    killed = client.client_kill_filter(_type="normal", skipme=True)
    wait_until(lambda: len(client.client_list()) > 1, message="the supervisor is back")
    client.connection_pool.disconnect()

    pair.wait_until_gone()
    assert killed >= 1
