"""Which file a spooled message was written to: copies, moves, renamed files and hosts."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dramatiq_streams.spool import Spool
from tests.unit.spool.filing import a_message, add_at_once, bodies, everything, open_spool


@pytest.mark.parametrize("is_in_its_stead", [False, True])
def test_copy_goes_on_as_another_file_and_has_what_was_there_as_the_same(
    path: Path, spool: Spool, is_in_its_stead: bool
) -> None:
    spool.add([a_message(1)])
    spool.close()
    other = path.with_name("other")
    if is_in_its_stead:
        path.rename(other)
        shutil.copy(other, path)
        original, copy = open_spool(other), open_spool(path)
    else:
        shutil.copy(path, other)
        original, copy = open_spool(path), open_spool(other)

    copy.add([a_message(2)])
    original.add([a_message(3)])

    (first, third), (same, second) = everything(original), everything(copy)
    assert first == same
    assert third.identity == first.identity
    assert second.identity not in ("", first.identity)
    original.close()
    copy.close()


def test_copies_of_an_empty_spool_differ_also_where_the_place_is_the_same(
    path: Path, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As of a virtual machine that is cloned while its processes run.
    monkeypatch.setattr("dramatiq_streams.spool_file._number_of", lambda path: "1 2")
    spool.add([a_message(1)])
    spool.remove(spool.oldest("default", 10, max_bytes=100))
    spool.close()
    copied = path.with_name("copied")
    shutil.copy(path, copied)
    copy = open_spool(copied)

    copy.add([a_message(2)])
    spool.add([a_message(3)])

    assert everything(copy)[0].identity != everything(spool)[0].identity
    copy.close()


def test_renamed_file_is_the_same(path: Path, spool: Spool) -> None:
    spool.add([a_message(1)])
    spool.close()
    renamed = open_spool(path.rename(path.with_name("renamed")))

    renamed.add([a_message(2)])

    first, second = renamed.oldest("default", 10, max_bytes=100)
    assert first.identity == second.identity
    renamed.close()


def test_spool_follows_its_path_when_another_file_is_put_there(path: Path, spool: Spool) -> None:
    spool.add([a_message(1)])
    spool.close()
    kept = shutil.copy(path, path.with_name("kept"))
    spool.add([a_message(2)])
    for file in path.parent.glob("spool*"):
        file.unlink()

    shutil.copy(kept, path)
    spool.add([a_message(3)])

    beside = open_spool(path)
    assert [message.body for message in everything(beside)] == [b"1", b"3"]
    beside.close()


def test_only_the_very_message_is_removed(path: Path, spool: Spool) -> None:
    spool.add([a_message(1)])
    (message,) = spool.oldest("default", 10, max_bytes=100)

    spool.remove([replace(message, identity="another")])

    assert bodies(spool) == [b"1"]


def test_host_with_another_name_gives_new_rows_another_identity(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.add([a_message(1)])
    spool.close()
    monkeypatch.setattr("socket.gethostname", lambda: "another")

    spool.add([a_message(2), a_message(3)])

    first, second, third = everything(spool)
    assert first.identity != second.identity == third.identity


def test_processes_that_open_a_copy_at_once_agree_who_it_is(path: Path, spool: Spool) -> None:
    spool.add([a_message(1)])
    spool.close()
    copied = path.with_name("copied")
    shutil.copy(path, copied)

    add_at_once(copied, 3)

    copy = open_spool(copied)
    first, *others = everything(copy)
    identities = {message.identity for message in others}
    assert len(others) == 75
    assert len(identities) == 1
    assert first.identity not in identities
    copy.close()
