"""When a server ends, and that nothing of it is left."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from dramatiq_streams.embedded import stop
from tests.support.waiting import wait_until

Connect = Callable[..., redis.Redis]


def test_server_ends_after_its_last_user_has_left(start_user: Callable[..., Any]) -> None:
    first, second = start_user(idle_timeout=0.2), start_user(idle_timeout=0.2)
    pair = first.pair()
    second.pair()

    first.leave()
    second.leave()

    pair.wait_until_gone()


def test_server_ends_after_its_users_were_killed(start_user: Callable[..., Any]) -> None:
    users = [start_user(idle_timeout=0.2) for _ in range(2)]
    (pair,) = {user.pair() for user in users}

    for user in users:
        user.kill()

    pair.wait_until_gone()


def test_server_stays_while_a_silent_user_is_connected(connect: Connect) -> None:
    client = connect(idle_timeout=0.2)
    server = client.info("server")["run_id"]

    # Each question of the supervisor is an INFO, and it asks every 50 ms.
    before = client.info("commandstats")["cmdstat_info"]["calls"]
    with client.monitor() as monitor:
        questions = [c for c in _commands(monitor, 12) if c.startswith("INFO clients")]

    assert before > 0
    assert len(questions) == 12
    assert client.info("server")["run_id"] == server


def _commands(monitor: Any, count: int) -> list[str]:
    return [monitor.next_command()["command"] for _ in range(count)]


def test_user_who_comes_as_the_door_closes_is_served(connect: Connect, directory: Path) -> None:
    client = connect(idle_timeout=0.05)
    counts = []

    for _ in range(8):
        counts.append(client.incr("count"))
        client.connection_pool.disconnect()
        wait_until(lambda: not (directory / "valkey.sock").exists(), interval=0.0005)

    assert counts == list(range(1, 9))


def test_stop_says_whether_there_was_a_server(
    connect: Connect, directory: Path, pair_of: Callable[..., Any]
) -> None:
    client = connect()
    pair = pair_of(client)

    answers = [stop(directory), stop(directory), stop(directory / "nowhere")]

    pair.wait_until_gone()
    assert answers == [True, False, False]


def test_stop_ends_a_server_that_has_no_supervisor(
    directory: Path, start_loading_server: Callable[[], redis.Redis], connect: Connect
) -> None:
    connect().set("key", "value")
    stop(directory)
    client = start_loading_server()
    wait_until((directory / "valkey.sock").exists)

    stopped = stop(directory)

    assert stopped
    with pytest.raises(redis.ConnectionError):
        client.ping()


def test_told_to_end_a_supervisor_stops_its_server_cleanly(
    connect: Connect, directory: Path, pair_of: Callable[..., Any]
) -> None:
    client = connect()
    client.set("key", "value")
    pair = pair_of(client)

    pair.supervisor.send_signal(signal.SIGTERM)

    pair.wait_until_gone()
    assert "ready to exit, bye bye" in (directory / "server.log").read_text()
    assert client.get("key") == b"value"


def test_log_that_has_grown_long_begins_again(connect: Connect, directory: Path) -> None:
    directory.mkdir()
    (directory / "server.log").write_bytes(b"x" * 1_100_000)

    connect().ping()

    assert (directory / "server.log").stat().st_size < 10_000
    assert (directory / "server.log.1").stat().st_size == 1_100_000
