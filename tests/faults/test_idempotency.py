"""Idempotency when workers die or stop, replies are lost, and the server is away."""

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from dramatiq.middleware import AgeLimit

from dramatiq_streams.events import Event
from dramatiq_streams.middleware import Idempotency
from dramatiq_streams.middleware.idempotency.records import Record, Records
from tests.conftest import StartServer
from tests.faults.conftest import Stage
from tests.faults.scene import Scene, script
from tests.support.cli import DramatiqCommand
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

#: Of the key: as short as it may be with one lock server.
LEASE_MS = 600

LATE = "Late completion refused"


class Play:
    """A scene with `Idempotency` in all its brokers; every message has the key `k`."""

    def __init__(self, scene: Scene, **options: Any) -> None:
        self.scene = scene
        self._options = {"lease": LEASE_MS, **options}
        self._idempotency = Idempotency(**self._options)
        scene.broker.add_middleware(self._idempotency, before=AgeLimit)
        self.told: list[Event] = []
        scene.broker.events.listen(lambda event, label, amount: self.told.append(event))

    @property
    def records(self) -> Records:
        return self._idempotency._claimant_of(self.scene.broker).records

    def record(self, actor: str = "note") -> Record:
        found = self.records.show(f"{actor}:k")
        assert found is not None
        return found

    def send(self, actor: str = "note", label: str = "k", **options: Any) -> None:
        to = getattr(self.scene.actors, actor)
        to.send_with_options(args=(label,), idempotency_key="k", **options)

    def start_victim(self, **options: Any) -> DramatiqCommand:
        environment = {"TEST_IDEMPOTENCY": json.dumps(self._options)}
        return self.scene.start_victim(environment=environment, **options)

    def locks(self) -> list[Any]:
        return list(self.scene.client.keys(f"{{{self.scene.broker.namespace}:*}}:lock:*"))

    def close(self) -> None:
        for claimant in self._idempotency._claimants.values():
            claimant.close()


MakePlay = Callable[..., Play]


@pytest.fixture
def play(scene: Scene, request: pytest.FixtureRequest) -> Any:
    made = Play(scene, **getattr(request, "param", {}))
    yield made
    made.close()


@pytest.fixture
def far(stage: Stage, server: Server, proxy: FaultyProxy) -> Any:
    """A play whose broker is behind the proxy; its own lease is far longer than any test."""
    made = Play(stage(server, url=proxy.url, lease=60_000), ttl=600_000)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("die_at", "runs"),
    [
        ("after record_look", 1),
        ("before record_start", 1),
        ("after record_start", 1),
        ("body", 2),
        ("before record_finish", 2),
        ("after record_finish", 1),
    ],
)
@pytest.mark.parametrize("play", [{}, {"on_busy": "skip"}], ids=["defer", "skip"], indirect=True)
def test_key_is_done_in_the_end_wherever_its_worker_died(
    play: Play, die_at: str, runs: int
) -> None:
    scene = play.scene
    scene.journal.allow("die")
    victim = play.start_victim(die_at=die_at)
    play.send()
    scene.wait_for_death(victim)
    attempts = 0 if die_at.endswith("record_look") else play.record().attempts

    scene.start_survivor()
    scene.join(seconds=10)

    assert len(scene.journal.pids("k")) == runs
    record = play.record()
    assert record.state == "done"
    assert record.attempts == attempts + (die_at != "after record_finish")
    assert play.records.held() == []
    wait_until(lambda: play.locks() == [], message="no lock is left")


def test_zombie_that_completes_late_is_refused(play: Play) -> None:
    scene = play.scene
    zombie = play.start_victim()
    play.send("hold")
    scene.wait_until_started("k")
    old = play.record("hold").token
    (pid,) = zombie.worker_pids
    os.kill(pid, signal.SIGSTOP)

    scene.start_survivor()
    wait_until(lambda: len(scene.journal.pids("k", "started")) == 2, message="it runs again")
    scene.journal.allow("go")
    scene.join(seconds=10)
    done = play.record("hold")
    os.kill(pid, signal.SIGCONT)
    zombie.wait_for_log(LATE)
    zombie.stop()

    assert scene.journal.pids("k") == [os.getpid(), pid]
    assert play.record("hold") == done
    assert (done.state, done.attempts) == ("done", 2)
    assert old is not None
    assert done.token is not None
    assert done.token > old


def test_duplicate_that_waits_for_a_worker_that_died_runs_when_its_lease_has_ended(
    play: Play,
) -> None:
    scene = play.scene
    victim = play.start_victim(prefetch=1)
    play.send("hold")
    scene.wait_until_started("k")
    scene.start_survivor()
    play.send("hold")
    wait_until(lambda: Event.DEFERRED in play.told, message="the duplicate waits")

    victim.kill_worker()
    wait_until(lambda: len(scene.journal.pids("k", "started")) == 2, timeout=5, message="it runs")
    scene.journal.allow("go")
    scene.join(seconds=10)

    assert scene.journal.pids("k") == [os.getpid()]
    assert play.record("hold").state == "done"


def test_message_that_kills_its_workers_becomes_a_dead_letter_though_it_was_deferred(
    stage: Stage, server: Server
) -> None:
    scene = stage(server, max_deliveries=2)
    play = Play(scene, lease=3_000)
    play.send("poison")
    for _ in range(2):
        victim = play.start_victim()
        # The first one dies soon, the second one when the lease of the first has ended.
        scene.journal.allow("die")
        scene.wait_for_end(victim)

    scene.start_survivor()
    wait_until(scene.dead_reasons, timeout=20, message="it is a dead letter")

    assert scene.dead_reasons() == ["max_deliveries"]
    assert len(scene.journal.pids("k")) == 2
    play.close()


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", ["record_look", "record_start", "record_finish"])
@pytest.mark.parametrize("kind", ["drop_reply", "drop_before"])
def test_lost_reply_runs_nothing_twice(
    far: Play, proxy: FaultyProxy, kind: str, name: str, times: int
) -> None:
    scene = far.scene
    getattr(proxy, kind)(script(name), times=times)

    scene.start_survivor()
    far.send()
    scene.join(seconds=10)

    assert proxy.counts[kind] == times
    assert len(scene.journal.pids("k")) == 1
    assert far.record().state == "done"
    assert far.locks() == []
    assert Event.COMPLETED_TOO_LATE not in far.told


@pytest.mark.parametrize("kind", ["drop_reply", "drop_before"])
def test_deferral_whose_reply_is_lost_leaves_one_copy(
    far: Play, proxy: FaultyProxy, kind: str
) -> None:
    scene = far.scene
    scene.start_survivor()
    far.send("hold")
    scene.wait_until_started("k")

    getattr(proxy, kind)(script("hand_over"))
    far.send("hold")
    wait_until(lambda: proxy.counts[kind], message="it struck")
    wait_until(lambda: far.told.count(Event.DEFERRED) >= 3, message="it is deferred again")
    stored = scene.stored()
    scene.journal.allow("go")
    scene.join(seconds=10)

    assert len(stored) == len(set(stored)) <= 2
    assert scene.journal.counts() == {"k": 1}
    assert far.told.count(Event.DUPLICATE_SKIPPED) == 1


def test_message_is_acknowledged_only_when_its_key_is_done(far: Play, proxy: FaultyProxy) -> None:
    scene = far.scene
    scene.start_survivor()
    far.send("hold")
    scene.wait_until_started("k")

    proxy.drop_before(script("record_finish"), times=8)
    scene.journal.allow("go")
    wait_until(lambda: proxy.counts["drop_before"] >= 2, message="it could not be completed")
    states = {far.record("hold").state for _ in range(5)}
    pending = len(scene.pending())
    scene.join(seconds=10)

    assert (states, pending) == ({"running"}, 1)
    assert far.record("hold").state == "done"
    assert scene.journal.counts() == {"k": 1}


def test_server_that_restarts_while_an_actor_runs_has_its_key_done_afterwards(
    stage: Stage, own_server: Server
) -> None:
    play = Play(stage(own_server, lease=60_000), lease=2_000)
    scene = play.scene
    scene.start_survivor()
    play.send("hold")
    scene.wait_until_started("k")

    own_server.restart()
    scene.journal.allow("go")
    scene.join(seconds=20)
    play.send("hold")
    scene.join(seconds=10)

    assert scene.journal.counts() == {"k": 1}
    assert play.record("hold").state == "done"
    play.close()


def test_record_that_its_server_has_lost_is_written_anew_by_what_is_done(
    stage: Stage, own_server: Server
) -> None:
    play = Play(stage(own_server, lease=60_000), lease=2_000)
    scene = play.scene
    scene.start_survivor()
    play.send("hold")
    scene.wait_until_started("k")
    token = play.record("hold").token

    own_server.restart(keep_data=False)
    scene.journal.allow("go")
    wait_until(lambda: play.records.show("hold:k"), timeout=20, message="it is completed")
    play.send("hold")
    scene.join(seconds=20)

    assert scene.journal.counts() == {"k": 1}
    assert (play.record("hold").state, play.record("hold").token) == ("done", token)
    play.close()


@pytest.fixture
def lockers(start_server: StartServer) -> list[Server]:
    """Three lock servers of this test alone."""
    return [start_server() for _ in range(3)]


def test_key_is_kept_while_its_lock_servers_are_away_for_less_than_its_lease(
    scene: Scene, lockers: list[Server]
) -> None:
    play = Play(scene, masters=[each.url for each in lockers], lease=3_000)
    scene.start_survivor()
    play.send("hold")
    scene.wait_until_started("k")
    # The first extension finds them away, the next one finds them back.
    for locker in lockers[:2]:
        locker.pause()
    key = play.records.lock_key("hold:k")
    left_ms = lockers[2].client().pttl(key)
    wait_until(lambda: lockers[2].client().pttl(key) > left_ms, message="an extension was tried")
    for locker in lockers[:2]:
        locker.resume()
    wait_until(lambda: Event.LOCK_EXTENDED in play.told, message="it is extended")
    scene.journal.allow("go")
    scene.join(seconds=10)

    assert Event.LOCK_LOST not in play.told
    assert (play.record("hold").state, play.record("hold").attempts) == ("done", 1)
    play.close()


def test_key_is_lost_when_its_lock_servers_are_away_for_longer(
    scene: Scene, lockers: list[Server]
) -> None:
    play = Play(scene, masters=[each.url for each in lockers], lease=1_000)
    scene.start_survivor()
    play.send("hold", idempotency_interrupt=True, max_retries=0)
    scene.wait_until_started("k")

    for locker in lockers[:2]:
        locker.kill()
    wait_until(lambda: Event.LOCK_LOST in play.told, message="it is lost")
    wait_until(lambda: play.record("hold").state == "failed", message="its actor is interrupted")

    assert scene.journal.pids("k") == []
    play.close()
