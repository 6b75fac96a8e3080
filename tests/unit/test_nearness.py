import itertools
import time

import pytest

from dramatiq_streams.nearness import AWAKE_SECONDS, MOST_SLEEPS, Nearness

#: How long a look at a connection takes here.
LOOK_SECONDS = AWAKE_SECONDS / 10


class Connection:
    """A connection on which a reply comes after so many looks, each of which takes its time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.comes_after = 0
        self.looks = 0
        self._left = 0
        monkeypatch.setattr(time, "perf_counter", lambda: self.looks * LOOK_SECONDS)

    def looks_for(self, nearness: Nearness) -> int:
        """How often it is looked at for one reply."""
        before = self.looks
        self._left = self.comes_after
        nearness.await_reply(self)
        return self.looks - before

    def can_read(self) -> bool:
        self.looks += 1
        self._left -= 1
        return self._left < 0


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Connection:
    return Connection(monkeypatch)


def test_reply_that_comes_at_once_is_waited_for_awake_again_and_again(
    connection: Connection,
) -> None:
    nearness = Nearness()
    connection.comes_after = 5

    assert [connection.looks_for(nearness) for _ in range(3)] == [6, 6, 6]


def test_no_thread_stays_awake_for_longer_than_it_pays(connection: Connection) -> None:
    connection.comes_after = 1_000_000

    looks = connection.looks_for(Nearness())

    assert looks * LOOK_SECONDS == pytest.approx(AWAKE_SECONDS, rel=0.2)


def test_server_far_away_is_slept_for_nearly_always(connection: Connection) -> None:
    nearness = Nearness()
    connection.comes_after = 1_000_000

    awake = [number for number in range(2_000) if connection.looks_for(nearness)]

    gaps = [later - earlier for earlier, later in itertools.pairwise(awake)]
    assert gaps[:4] == [3, 5, 9, 17]
    assert max(gaps) == gaps[-1] == MOST_SLEEPS + 1


def test_server_that_has_come_near_is_waited_for_awake_again(connection: Connection) -> None:
    nearness = Nearness()
    connection.comes_after = 1_000_000
    for _ in range(2_000):
        connection.looks_for(nearness)
    connection.comes_after = 1

    looks = [connection.looks_for(nearness) for _ in range(MOST_SLEEPS + 10)]

    assert looks[-9:] == [2] * 9
    connection.comes_after = 1_000_000
    assert [bool(connection.looks_for(nearness)) for _ in range(4)] == [True, False, False, True]
