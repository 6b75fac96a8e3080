import pytest

from dramatiq_streams.migration.scripts import MigrationScripts
from tests.scripts.shard import Shard


@pytest.fixture
def transit(shard: Shard) -> str:
    """The key of three messages in transit."""
    key = shard.keys.wake.replace("wake", "transit")
    for number in (1, 2, 3):
        shard.client.xadd(key, {"m": "body"}, id=f"{number}-0")
    return key


def confirm(shard: Shard, transit: str, *entries: bytes) -> int:
    return MigrationScripts(shard.scripts._runs).confirm(transit=transit, entries=entries)


def test_what_has_arrived_is_dropped(shard: Shard, transit: str) -> None:
    assert confirm(shard, transit, b"1-0", b"3-0") == 2

    assert [entry for entry, _ in shard.client.xrange(transit)] == [b"2-0"]


def test_what_another_run_has_confirmed_changes_nothing(shard: Shard, transit: str) -> None:
    confirm(shard, transit, b"1-0")

    assert confirm(shard, transit, b"1-0") == 0

    assert shard.client.xlen(transit) == 2


def test_nothing_is_left_behind(shard: Shard, transit: str) -> None:
    assert confirm(shard, transit, b"1-0", b"2-0", b"3-0") == 3

    assert not shard.client.exists(transit)
    assert confirm(shard, transit, b"1-0") == 0
