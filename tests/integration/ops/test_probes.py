"""The probes: who is healthy, and what a doctor finds."""

import re
from inspect import getsource

import pytest

from dramatiq_streams import StreamsBroker, checks
from dramatiq_streams.cli import doctor
from tests.conftest import MakeWorker, StartServer
from tests.contract.queue_state import QueueState, new_message
from tests.integration.ops.conftest import RunCommand
from tests.support.servers import Server
from tests.support.waiting import wait_until


def test_host_with_a_living_worker_is_healthy_and_another_is_not(
    broker: StreamsBroker, make_worker: MakeWorker, queue: QueueState, run: RunCommand
) -> None:
    broker.enqueue(new_message())
    assert run("health").code == 1

    broker.flush("default")
    broker.declare_queue("default")
    make_worker(broker)
    wait_until(lambda: run("health").code == 0)

    assert run("health", "--host", "elsewhere").code == 1
    assert run("health", "--json").json["healthy"] is True


def test_worker_whose_heartbeat_is_older_than_its_lease_is_not_healthy(
    broker: StreamsBroker, queue: QueueState, run: RunCommand
) -> None:
    broker.enqueue(new_message())
    now_ms = queue.now_ms()
    queue.client.zadd(queue.keys.consumers, {"somewhere:7:abc": now_ms - 70_000})
    queue.client.hset(queue.keys.connections, "somewhere:7:abc", "5 f20 a0")

    old = run("health", "--host", "somewhere")
    patient = run("health", "--host", "somewhere", "--within", "5m")
    named = run("health", "--host", "somewhere", "--within", "5m", "--queue", "default")

    assert (old.code, patient.code, named.code) == (1, 0, 0)
    assert "ago" in old.error


@pytest.mark.parametrize(
    ("condition", "trouble"),
    [
        ("5 f59000 a59000", ""),
        ("5 a0", "it has not fetched yet"),
        ("5 f61000 a0", "it has not fetched for"),
        ("5 f20 a61000", "an acknowledgement waits for"),
    ],
)
def test_worker_whose_heart_beats_but_that_does_not_work_is_not_healthy(
    broker: StreamsBroker, queue: QueueState, run: RunCommand, condition: str, trouble: str
) -> None:
    broker.enqueue(new_message())
    queue.client.zadd(queue.keys.consumers, {"somewhere:7:abc": queue.now_ms()})
    queue.client.hset(queue.keys.connections, "somewhere:7:abc", condition)

    found = run("health", "--host", "somewhere")

    assert found.code == (1 if trouble else 0)
    assert trouble in found.error


def test_stuck_consumer_thread_and_stuck_acks_show_in_the_next_heartbeats(
    broker: StreamsBroker, make_worker: MakeWorker, run: RunCommand
) -> None:
    broker.declare_queue("default")
    worker = make_worker(broker)
    wait_until(lambda: run("health", "--within", "1s").code == 0, message="it is well")
    holdings = broker._process.settlement("default").holdings
    with holdings._changed:  # what every fetch and every ack needs
        wait_until(
            lambda: "has not fetched for" in run("health", "--within", "1s").error,
            timeout=10,
            message="it is stuck",
        )

    wait_until(lambda: run("health", "--within", "1s").code == 0, timeout=10, message="well again")
    worker.stop()


def test_doctor_finds_nothing_wrong_with_a_good_server(own_server: Server, run: RunCommand) -> None:
    result = run("doctor", "--url", own_server.url, "--json")

    codes = {finding["code"] for finding in result.json["findings"]}
    assert codes <= {"version"}  # an old server of this test suite
    assert result.code == len(codes)
    assert result.json["round_trip_ms"] > 0
    assert own_server.client().dbsize() == 0


def test_doctor_warns_of_a_server_that_keeps_nothing(
    start_server: StartServer, run: RunCommand
) -> None:
    result = run("doctor", "--url", start_server().admin_url)

    assert result.code == 1
    assert "[persistence]" in result.out


def test_doctor_says_what_its_user_may_not_look_at(
    start_server: StartServer, run: RunCommand
) -> None:
    server = start_server()
    admin = server.client()
    admin.execute_command("ACL", "SETUSER", "plain", "on", ">p", "~*", "+@all", "-config")
    admin.execute_command("ACL", "SETUSER", "mute", "on", ">p", "~*", "+@all", "-config", "-info")

    for user in ("plain", "mute"):
        url = server.admin_url.replace("unix://", f"unix://{user}:p@")
        result = run("doctor", "--url", url, "--accept", "version", "--json")

        codes = {finding["code"] for finding in result.json["findings"]} - {"version"}
        assert (result.code, codes) == (1, {"settings"})


def test_doctor_calls_a_server_that_evicts_messages_an_error(
    start_server: StartServer, run: RunCommand
) -> None:
    server = start_server(config=["maxmemory 100mb", "maxmemory-policy allkeys-lru"])

    result = run("doctor", "--url", server.url, "--json")

    assert result.code == 2
    assert result.json["findings"][0]["code"] == "eviction"


def test_doctor_tells_when_no_message_can_be_stored(
    start_server: StartServer, run: RunCommand
) -> None:
    server = start_server(config=["maxmemory 1", "maxmemory-policy noeviction"])

    result = run("doctor", "--url", server.url, "--json")

    assert result.code == 2
    assert result.json["findings"][0]["code"] == "round-trip"
    assert result.json["round_trip_ms"] is None


def test_limit_of_no_time_at_all_is_a_limit(
    broker: StreamsBroker, queue: QueueState, run: RunCommand
) -> None:
    broker.enqueue(new_message())
    queue.client.zadd(queue.keys.consumers, {"somewhere:7:abc": queue.now_ms() - 1_000})
    queue.client.hset(queue.keys.connections, "somewhere:7:abc", "5 f20 a0")

    limits = [["--within", "0s"], ["--within", "1ms"], []]

    assert [run("health", "--host", "somewhere", *limit).code for limit in limits] == [1, 1, 0]


def test_finding_that_is_accepted_is_shown_and_decides_nothing(
    start_server: StartServer, run: RunCommand
) -> None:
    server = start_server(config=["maxmemory 100mb", "maxmemory-policy allkeys-lru"])
    others = ["--accept", "version", "--accept", "persistence"]

    kept = run("doctor", "--url", server.admin_url, *others)
    accepted = run("doctor", "--url", server.admin_url, *others, "--accept", "eviction")
    told = run("doctor", "--url", server.admin_url, "--accept", "persistence", "--json")

    assert (kept.code, accepted.code, told.code) == (2, 0, 2)
    assert "\nerror: At its maxmemory" in kept.out
    assert "\naccepted: At its maxmemory" in accepted.out
    assert {f["code"]: f["accepted"] for f in told.json["findings"] if f["code"] != "version"} == {
        "eviction": False,
        "persistence": True,
    }


def test_every_finding_about_a_server_can_be_accepted() -> None:
    codes = re.findall(r"Level\.\w+(?: if \w+ else Level\.\w+)?,\s+\"([\w-]+)\"", getsource(checks))
    codes.append("settings")  # of the user that asks

    assert len(codes) > 3
    assert sorted(codes) == list(doctor.ACCEPTABLE)
