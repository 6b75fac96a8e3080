"""The file of the spool: order, limits, several processes, forks, files that are none."""

import multiprocessing
import os
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from dramatiq_streams import SpoolFailed
from dramatiq_streams.spool import Spool
from dramatiq_streams.uniqueness import Reservation
from tests.support.waiting import wait_until
from tests.unit.spool.filing import a_message, add_at_once, bodies, everything, open_spool


def test_messages_come_back_in_order_and_whole(spool: Spool) -> None:
    messages = [a_message(number) for number in range(20)]

    for message in messages[:5]:
        spool.add([message])
    spool.add(messages[5:])

    found = spool.oldest("default", 100, max_bytes=10**6)
    assert [replace(message, row=0, identity="") for message in found] == messages
    rows = [message.row for message in found]
    assert rows == sorted(set(rows))


def test_messages_survive_their_process(path: Path, spool: Spool) -> None:
    spool.add([a_message(1), a_message(2)])
    spool.close()

    again = open_spool(path)

    assert bodies(again) == [b"1", b"2"]
    again.close()


def test_only_the_queues_of_its_own_namespace_are_shown(path: Path, spool: Spool) -> None:
    other = open_spool(path, name="other")
    spool.add([a_message(1), a_message(2, queue="mail")])
    other.add([a_message(3, queue="theirs")])

    assert sorted(spool.queue_names()) == ["default", "mail"]
    assert spool.holds(["mail", "theirs"])
    assert not spool.holds(["theirs", "none"])
    assert other.queue_names() == ["theirs"]
    other.close()


def test_what_is_removed_makes_room(path: Path) -> None:
    spool = open_spool(path, messages=2)
    spool.add([a_message(1), a_message(2)])
    assert not spool.add([a_message(3)])

    spool.remove(spool.oldest("default", 1, max_bytes=1))

    assert spool.add([a_message(3)])
    assert bodies(spool) == [b"2", b"3"]
    spool.close()


def test_limits_are_kept_and_nothing_is_spooled_in_part(path: Path) -> None:
    spool = open_spool(path, messages=3, size=100)

    assert spool.add([a_message(1, size=49), a_message(2, size=47)])
    assert not spool.add([a_message(3), a_message(4)])
    assert not spool.add([a_message(5, size=2)])
    assert spool.add([a_message(6)])

    assert spool.size() == (3, 99)
    assert len(bodies(spool)) == 3
    spool.close()


def test_batch_is_bounded_by_count_and_bytes_and_never_empty(spool: Spool) -> None:
    spool.add([a_message(number, size=100) for number in range(10)])

    assert len(spool.oldest("default", 3, max_bytes=10**6)) == 3
    assert len(spool.oldest("default", 100, max_bytes=250)) == 2
    assert len(spool.oldest("default", 100, max_bytes=1)) == 1
    assert spool.oldest("none", 100, max_bytes=1) == []


def test_rows_go_on_upwards_though_the_file_came_from_a_backup(path: Path, spool: Spool) -> None:
    spool.add([a_message(1)])
    spool.close()
    backup = path.read_bytes()
    spool.add([a_message(2)])
    (used,) = spool.oldest("default", 9, max_bytes=99)[1:]
    spool.close()

    path.write_bytes(backup)
    restored = open_spool(path)
    restored.add([a_message(3)])

    (added,) = restored.oldest("default", 9, max_bytes=99)[1:]
    assert added.identity == used.identity
    assert added.row > used.row
    restored.close()


def test_file_is_its_owners_alone(path: Path, spool: Spool) -> None:
    spool.add([a_message(1)])

    modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {0o600}
    assert {file.name for file in path.parent.iterdir()} <= {"spool", "spool-wal", "spool-shm"}


@pytest.mark.parametrize("content", [b"no database at all, but a longer text" * 100, "sqlite"])
def test_file_of_somebody_else_is_left_alone(path: Path, content: bytes | str) -> None:
    if isinstance(content, str):
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE precious (x)")
        connection.close()
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    spool = open_spool(path)

    with pytest.raises(SpoolFailed, match=str(path)):
        spool.add([a_message(1)])

    spool.close()
    assert path.read_bytes() == before


def test_directory_that_vanished_is_a_clear_error(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "gone" / "spool")

    with pytest.raises(SpoolFailed, match="gone"):
        spool.holds(["default"])
    with pytest.raises(SpoolFailed, match="gone"), spool.reserved():
        pass


def test_threads_share_one_spool(path: Path) -> None:
    spool = open_spool(path, messages=10_000)

    def add(thread: int) -> None:
        for number in range(25):
            spool.add([a_message(thread * 1000 + number)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))

    found = [int(body) for body in bodies(spool)]
    assert len(found) == 200
    for thread in range(8):
        own = [number for number in found if number // 1000 == thread]
        assert own == sorted(own)
    spool.close()


def test_processes_share_one_file_from_its_first_moment(path: Path) -> None:
    exit_codes = add_at_once(path, 4)

    spool = open_spool(path)
    assert exit_codes == [0] * 4
    assert len(bodies(spool)) == 100
    assert spool.size()[0] == 100
    spool.close()


def _add_and_leave(spool: Spool, number: int) -> None:
    if spool._file._connection is not None:  # the parent's, and its locks are not this process's
        os._exit(1)
    spool.add([a_message(number)])
    os._exit(0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forks_of_a_process_with_an_open_spool_lose_nothing(path: Path, spool: Spool) -> None:
    fork = multiprocessing.get_context("fork")
    spool.add([a_message(1)])

    children = []
    for number in range(2, 8):
        child = fork.Process(target=_add_and_leave, args=(spool, number))
        child.start()
        children.append(child)
        spool.add([a_message(number * 100)])
    for child in children:
        child.join(30)

    assert [child.exitcode for child in children] == [0] * 6
    expected = [1, *range(2, 8), *range(200, 800, 100)]
    assert sorted(map(int, bodies(spool))) == sorted(expected)


def _hold_drain(path: Path) -> None:
    with open_spool(path).reserved() as is_ours:
        Path(f"{path}.is_{is_ours}").touch()
        time.sleep(60)


def test_one_process_drains_at_a_time_and_a_dead_one_does_not_count(
    path: Path, spool: Spool
) -> None:
    holder = multiprocessing.get_context("spawn").Process(target=_hold_drain, args=(path,))
    holder.start()
    wait_until(Path(f"{path}.is_True").exists, timeout=20)

    with spool.reserved() as is_ours_beside_it:
        pass
    holder.kill()
    holder.join(10)
    with spool.reserved() as is_ours_after_it:
        pass

    assert (is_ours_beside_it, is_ours_after_it) == (False, True)


def test_reservation_comes_back_whole(spool: Spool) -> None:
    reservation = Reservation('key: "ü"', 60_000, "m1")

    spool.add([replace(a_message(1), reservation=reservation), a_message(2)])

    found = spool.oldest("default", 10, max_bytes=10**9)
    assert [message.reservation for message in found] == [reservation, None]


@pytest.mark.parametrize("version", [1, 2])
def test_file_of_an_earlier_release_is_read_and_written(
    path: Path, spool: Spool, version: int
) -> None:
    spool.add([a_message(1)])
    (before,) = spool.oldest("default", 10, max_bytes=10**9)
    spool.close()
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE messages DROP COLUMN identity")
        connection.execute("ALTER TABLE spool DROP COLUMN place")
        if version == 1:
            connection.execute("ALTER TABLE messages DROP COLUMN reservation")
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()

    spool.add([replace(a_message(2), reservation=Reservation("k", 1, "m"))])

    found = everything(spool)
    assert [(m.body, m.reservation is None) for m in found] == [(b"1", True), (b"2", False)]
    assert found[0] == before


def test_message_that_a_process_of_the_release_before_adds_has_the_identity_of_the_file(
    path: Path, spool: Spool
) -> None:
    spool.add([a_message(1)])
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO messages (row, namespace, queue, lane, body, delivery)"
            " SELECT last_row + 1, 'ns', 'default', 'low', '2', 'd2' FROM spool"
        )
    connection.close()

    found = spool.oldest("default", 10, max_bytes=10**9)

    assert len({message.identity for message in found}) == 1
    spool.remove(found)
    assert spool.size() == (0, 0)
