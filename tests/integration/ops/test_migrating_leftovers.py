"""`dramatiq-streams migrate`: what it leaves, what it takes over all the same, and what it says."""

from tests.conftest import StartServer
from tests.contract.queue_state import QueueState
from tests.integration.ops.conftest import Migrate, RunCommand, left
from tests.support.redis_broker import OldBroker

HOUR_MS = 3_600_000


def test_messages_of_living_workers_stay_and_their_acks_take_effect(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    for number in range(3):
        old.send(number)
    held = old.fetch(2)

    result = migrate("--json")
    for message in held.messages:
        held.consumer.ack(message)

    assert (result.code, left(result)) == (1, {"held": 2})
    assert [message.args for message in queue.messages()] == [(2,)]
    assert old.keys() == set()


def test_messages_of_dead_workers_are_taken_over_before_the_others(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    for number in range(3):
        old.send(number)
    old.fetch(1).fall_silent()

    result = migrate("--json")

    assert result.code == 0
    assert [message.args for message in queue.messages()] == [(0,), (1,), (2,)]
    assert old.keys() == set()


def test_heartbeat_timeout_says_who_is_dead(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    old.send(1)
    old.fetch(1).fall_silent(90_000)

    assert migrate("--heartbeat-timeout", "5m").code == 1
    assert migrate("--heartbeat-timeout", "80s").code == 0


def test_what_living_workers_and_nobody_have_can_be_included(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    old.send("held")
    old.send("held till later", delay=HOUR_MS)
    old.send("lost")
    old.client.lpop(f"{old.namespace}:default")
    old.fetch(1)
    old.fetch(1, queue="default.DQ")
    first = migrate("--json")

    second = migrate("--json", "--include-unacked")

    assert left(first) == {"held": 2, "orphaned": 1}
    assert (second.code, second.json["moved"], left(second)) == (0, 3, {})
    assert (len(queue.messages()), len(queue.delayed())) == (2, 1)
    assert old.keys() == set()


def test_what_is_no_message_stays_or_becomes_a_dead_letter(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    bodies = [b"\xff\xfe", b'{"args": 7}']
    for body in bodies:
        old.add_raw(body)
        old.send("between")

    kept = migrate("--json")
    stayed = old.client.llen(f"{old.namespace}:default")
    buried = migrate("--json", "--bury-undecodable")

    assert (kept.code, left(kept), stayed) == (1, {"undecodable": 2}, 2)
    assert (buried.code, left(buried)) == (0, {})
    assert [letter["m"] for letter in queue.dead()] == bodies
    assert {letter["reason"] for letter in queue.dead()} == {b"undecodable"}
    assert len(queue.messages()) == 2


def test_what_is_too_large_stays(old: OldBroker, migrate: Migrate, queue: QueueState) -> None:
    old.send("x" * 2_000)
    old.send("small")

    result = migrate("--json", "--max-message-bytes", "1000")

    assert (result.code, left(result)) == (1, {"too_large": 1})
    assert [message.args for message in queue.messages()] == [("small",)]
    assert migrate().code == 0


def test_id_without_a_body_is_passed_over_as_the_old_broker_does(
    old: OldBroker, migrate: Migrate, queue: QueueState
) -> None:
    old.send(1)
    old.client.rpush(f"{old.namespace}:default", "nothing")

    result = migrate("--json")

    assert (result.code, result.json["moved"], len(queue.messages())) == (0, 1, 1)
    assert old.keys() == set()


def test_full_target_loses_nothing_and_the_next_run_goes_on(
    old: OldBroker, run: RunCommand, start_server: StartServer, namespace: str
) -> None:
    full = start_server()
    full.client().config_set("maxmemory-policy", "noeviction")
    full.client().set("load", "x" * 100_000)
    there = ["--from", old.url, "--from-namespace", old.namespace, "--url", full.url]
    old.send("makes the queue known")
    run("migrate", *there)
    full.client().config_set("maxmemory", 1)
    sent = [old.send(number) for number in range(5)]

    refused = run("migrate", *there)
    full.client().config_set("maxmemory", 0)
    elsewhere = run("migrate", *there, "--namespace", f"{namespace}-other")
    planned, done = run("migrate", *there, "--dry-run", "--json"), run("migrate", *there, "--json")

    assert refused.code == 3
    assert (elsewhere.code, namespace in elsewhere.error) == (2, True)
    assert planned.json["moved"] == done.json["moved"] == 5
    assert QueueState(full.client(), namespace).entries("default")[1:] == sent
    assert old.keys() == set()
