"""Unique keys while replies are lost, workers are killed and servers restarted."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from dramatiq.errors import ConnectionClosed
from dramatiq.message import Message

from tests.conftest import MakeBroker, StartServer
from tests.faults.conftest import Stage
from tests.faults.scene import Scene, script
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

Lose = Callable[[bytes], None]
HOUR_MS = 3_600_000


@pytest.fixture
def proxied(stage: Stage, server: Server, proxy: FaultyProxy) -> Scene:
    """A scene whose broker is behind the proxy; its lease is far longer than any test."""
    return stage(server, url=proxy.url, lease=60_000)


@pytest.fixture(params=["reply", "request"])
def lose(request: pytest.FixtureRequest, proxy: FaultyProxy) -> Lose:
    """Loses the next request that matches, or its reply."""
    return proxy.drop_reply if request.param == "reply" else proxy.drop_before


def send(actor: dramatiq.Actor[Any, Any], label: str, **options: Any) -> str:
    """Send *label* once; returns the id of the message that is there."""
    options = {"unique_for": 60_000, **options}
    return actor.send_with_options(args=(label,), **options).message_id


def held(scene: Scene) -> dict[str, str]:
    """The keys that messages have, and their ids."""
    found = {}
    for key, record in scene.client.hgetall(scene.keys.unique_messages).items():
        token, colon, message_id = record.decode().partition(":")
        if colon and token.isalnum():
            found[key.decode()] = message_id
    return found


def waiting(scene: Scene) -> list[str]:
    """The label of every message in a lane."""
    entries = [entry for lane in scene.keys.lanes for entry in scene.client.xrange(lane)]
    bodies: list[Any] = [fields[b"m"] for _, fields in entries]
    return [Message.decode(body).args[0] for body in bodies]


@pytest.mark.parametrize("delay", [None, HOUR_MS, 30_000])
def test_send_whose_reply_or_request_was_lost_is_sent_again_and_there_once(
    proxied: Scene, lose: Lose, delay: int | None
) -> None:
    lose(script("enqueue_unique"))

    sent = send(proxied.actors.note, "one", delay=delay)

    assert list(held(proxied).values()) == [sent]
    assert len(waiting(proxied)) + proxied.client.zcard(proxied.keys.delayed) == 1
    assert send(proxied.actors.note, "one") == sent


def test_many_whose_replies_were_lost_are_sent_again_and_there_once(
    proxied: Scene, lose: Lose
) -> None:
    first = send(proxied.actors.note, "3")
    messages = [
        proxied.actors.note.message_with_options(args=(str(n),), unique_for=60_000)
        for n in range(50)
    ]
    lose(script("enqueue_unique") + rb'.*"args":\["20"\]')

    enqueued = proxied.broker.enqueue_many(messages)

    assert sorted(waiting(proxied)) == sorted(str(n) for n in range(50))
    expected = [message.message_id for message in messages]
    expected[3] = first
    assert [message.message_id for message in enqueued] == expected


@pytest.mark.parametrize("until", ["started", "done"])
def test_message_that_is_done_when_it_is_sent_again_does_not_run_twice(
    stage: Stage, server: Server, proxy: FaultyProxy, make_broker: MakeBroker, until: str
) -> None:
    scene = stage(server, url=proxy.url, lease=60_000)
    # A worker with a broker of its own, which does not go through the proxy.
    straight = stage(server, lease=60_000)
    straight.start_survivor()
    producer = scene.broker._process.producer
    reach, attempts = producer._reach, []

    def reach_when_done() -> None:
        attempts.append(1)
        if len(attempts) == 2:
            straight.join()
        reach()

    producer._reach = reach_when_done
    proxy.drop_reply(script("enqueue_unique"))

    send(scene.actors.note, "one", unique_until=until)

    straight.join()
    assert len(attempts) == 2
    assert straight.journal.counts() == {"one": 1}
    assert held(straight) == {}


def test_next_message_may_be_sent_though_the_last_ones_reply_was_lost(proxied: Scene) -> None:
    first = send(proxied.actors.note, "one")
    proxied.start_survivor()
    proxied.join()

    second = send(proxied.actors.note, "one")

    proxied.join()
    assert first != second
    assert proxied.journal.counts() == {"one": 2}


def test_ack_whose_reply_was_lost_does_not_free_the_successors_key(
    proxied: Scene, proxy: FaultyProxy, lose: Lose
) -> None:
    send(proxied.actors.hold, "one")
    proxied.start_survivor(threads=1)
    proxied.wait_until_started("one")
    lose(script("ack"))
    lose(script("read"))

    proxied.journal.allow("go")
    wait_until(lambda: not held(proxied), message="the first one is done")
    successor = send(proxied.actors.hold, "one", delay=HOUR_MS)
    wait_until(lambda: not proxied.pending(), message="the first one's ack has arrived")

    assert list(held(proxied).values()) == [successor]


def test_start_whose_reply_or_request_was_lost_runs_and_frees_its_key_at_the_latest_when_done(
    proxied: Scene, lose: Lose
) -> None:
    lose(script("start_unique"))
    send(proxied.actors.hold, "one", unique_until="started")
    proxied.start_survivor()

    proxied.wait_until_started("one")
    proxied.journal.allow("go")
    proxied.join()

    assert held(proxied) == {}
    assert proxied.journal.counts() == {"one": 1}


def test_killed_workers_message_keeps_its_key_until_another_worker_has_done_it(
    scene: Scene,
) -> None:
    command = scene.start_victim()
    first = send(scene.actors.hold, "one")
    scene.wait_until_started("one")

    command.kill_worker()
    scene.wait_for_end(command)
    while_dead = send(scene.actors.hold, "one")
    scene.start_survivor()
    wait_until(
        lambda: len(scene.journal.pids("one", "started")) == 2,
        timeout=15,
        message="another worker runs it",
    )
    while_recovered = send(scene.actors.hold, "one")
    scene.journal.allow("go")
    scene.join(seconds=10)

    assert while_dead == while_recovered == first
    assert scene.journal.counts() == {"one": 1}
    assert held(scene) == {}


def test_worker_that_dies_as_a_message_ends_leaves_no_key(scene: Scene) -> None:
    command = scene.start_victim(die_at="before ack")
    send(scene.actors.note, "one")
    scene.journal.allow("die")
    scene.wait_for_death(command)
    assert list(held(scene)) != []

    scene.start_survivor()
    scene.join(seconds=15)

    assert held(scene) == {}


@pytest.mark.slow
def test_poison_message_frees_its_key(stage: Stage, server: Server) -> None:
    scene = stage(server, max_deliveries=2)
    first = send(scene.actors.poison, "poison")

    for _ in range(2):
        command = scene.start_victim()
        scene.journal.allow("die")
        scene.wait_for_end(command)
    assert send(scene.actors.poison, "poison") == first
    scene.start_victim()
    wait_until(scene.dead_reasons, timeout=15, message="it is a dead letter")

    assert scene.dead_reasons() == ["max_deliveries"]
    assert held(scene) == {}
    assert send(scene.actors.poison, "poison") != first


def test_server_that_is_killed_remembers_who_has_which_key(
    stage: Stage, start_server: StartServer
) -> None:
    server = start_server(appendonly=True, config=["appendfsync always"])
    scene = stage(server)
    first = send(scene.actors.note, "one")
    delayed = send(scene.actors.note, "two", delay=HOUR_MS)

    server.kill()
    server.start()

    assert send(scene.actors.note, "one") == first
    assert send(scene.actors.note, "two") == delayed
    assert len(waiting(scene)) == 1


def test_flushed_server_forgets_all_keys_and_workers_go_on(
    stage: Stage, start_server: StartServer
) -> None:
    server = start_server()
    scene = stage(server)
    send(scene.actors.hold, "one")
    scene.start_survivor()
    scene.wait_until_started("one")

    server.client().flushall()
    successor = send(scene.actors.note, "one", delay=HOUR_MS)
    scene.journal.allow("go")
    send(scene.actors.note, "two")
    wait_until(lambda: scene.journal.pids("two"), message="the next message has run")

    # Its own key is free only when it is done.
    wait_until(
        lambda: list(held(scene).values()) == [successor], message="the successor has its key"
    )


def test_spooled_messages_are_unique_when_they_are_taken_in(
    make_broker: MakeBroker, stage: Stage, server: Server, proxy: FaultyProxy, tmp_path: Path
) -> None:
    straight = stage(server)
    scene = stage(server, url=proxy.url, spool=str(tmp_path / "spool"))
    before = send(scene.actors.note, "before")
    proxy.refuse()

    first, second = send(scene.actors.note, "one"), send(scene.actors.note, "one")
    again = send(scene.actors.note, "before")
    late = send(scene.actors.note, "late", delay=HOUR_MS)
    proxy.accept()
    wait_until(
        lambda: scene.broker._process._spool.size() == (0, 0),
        timeout=20,
        message="the spool is drained",
    )

    # Who sends into a spool gets the id of its own message: nobody knows yet.
    assert len({before, first, second, again, late}) == 5
    assert set(held(straight).values()) == {before, first, late}
    assert sorted(waiting(straight)) == ["before", "one"]
    assert straight.client.zcard(straight.keys.delayed) == 1


def test_lost_reply_to_a_direct_send_is_spooled_and_there_once(
    stage: Stage, server: Server, proxy: FaultyProxy, lose: Lose, tmp_path: Path
) -> None:
    scene = stage(server, url=proxy.url, spool=str(tmp_path / "spool"))
    lose(script("enqueue_unique"))

    sent = send(scene.actors.note, "one")
    wait_until(
        lambda: scene.broker._process._spool.size() == (0, 0),
        timeout=20,
        message="the spool is drained",
    )

    assert waiting(scene) == ["one"]
    assert list(held(scene).values()) == [sent]


def test_redrive_whose_reply_was_lost_sends_one_message_and_reserves_one_key(
    proxied: Scene, proxy: FaultyProxy
) -> None:
    from dramatiq_streams.dead_letters import Outcome
    from dramatiq_streams.letters import LetterFilter

    send(proxied.actors.fail, "one")
    worker = proxied.start_survivor()
    wait_until(proxied.dead_ids, message="it is dead")
    worker.stop()
    dead = proxied.broker._process.dead_letters
    [letter] = dead.letters("default", LetterFilter())
    proxy.drop_reply(script("redrive"))

    with pytest.raises(ConnectionClosed):
        dead.redrive(letter)
    again = dead.redrive(letter)

    assert again.outcome is Outcome.GONE
    assert waiting(proxied) == ["one"]
    assert len(held(proxied)) == 1


def test_senders_in_an_unsteady_network_agree_on_one_message_each_time(
    stage: Stage, server: Server, proxy: FaultyProxy
) -> None:
    scene = stage(server, url=proxy.url, lease=60_000, enqueue_timeout=20_000)
    threads, rounds = 4, 15
    barrier = threading.Barrier(threads)
    proxy.drop_reply(script("enqueue_unique"), times=10)
    proxy.drop_before(script("enqueue_unique"), times=10)

    def send_all(_thread: int) -> list[str]:
        found = []
        for number in range(rounds):
            barrier.wait(30)
            found.append(send(scene.actors.note, str(number)))
        return found

    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(send_all, range(threads)))

    assert all(len(set(ids)) == 1 for ids in zip(*results, strict=True))
    assert sorted(waiting(scene)) == sorted(map(str, range(rounds)))
    assert (proxy.counts["drop_reply"], proxy.counts["drop_before"]) == (10, 10)
