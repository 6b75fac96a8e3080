"""What a worker warns of when it starts, on real servers."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from dramatiq_streams import clock
from dramatiq_streams.checks import Facts, findings, read_facts
from dramatiq_streams.connections import Connections
from tests.conftest import MakeBroker, StartServer
from tests.support.servers import Server
from tests.support.waiting import wait_until

CHECKS = "dramatiq_streams.checks"


def facts_of(server: Server, **parameters: str) -> Facts:
    connections = Connections(url=server.admin_url, client=None, parameters=parameters)
    executor = connections.dedicated()
    try:
        return read_facts(executor, may_ask_config=connections.is_default_user)
    finally:
        executor.close()


def codes(facts: Facts) -> set[str]:
    """What is found, but for the version: that depends on which server runs the tests."""
    return {finding.code for finding in findings(facts)} - {"version"}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ((), set()),
        (("save 900 1", "appendonly no"), set()),
        (("appendonly no",), {"persistence"}),
        (("maxmemory 100mb",), set()),
        (("maxmemory 100mb", "maxmemory-policy allkeys-lru"), {"eviction"}),
        (("maxmemory 100mb", "maxmemory-policy volatile-lru"), {"eviction"}),
        (("maxmemory-policy allkeys-lru",), set()),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, tuple) else None,
)
def test_settings_are_found(
    start_server: StartServer, config: Sequence[str], expected: set[str]
) -> None:
    own = start_server(appendonly=True, config=config)

    assert codes(facts_of(own)) == expected


@pytest.mark.parametrize(
    ("config", "expected"), [((), {"replication"}), (("min-replicas-to-write 1",), set())]
)
def test_replicas_that_nobody_waits_for_are_found(
    start_server: StartServer, config: Sequence[str], expected: set[str]
) -> None:
    own = start_server(appendonly=True, tcp=True, config=config)
    assert codes(facts_of(own)) == set()

    start_server(appendonly=True, config=[f"replicaof 127.0.0.1 {own.port}"])
    wait_until(lambda: facts_of(own).replicas, timeout=20, message="the replica is connected")

    assert codes(facts_of(own)) == expected


@pytest.mark.parametrize("ahead_ms", [-60_000, 60_000])
def test_distant_clock_is_found(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, ahead_ms: int
) -> None:
    own = start_server(appendonly=True)
    wall_ms = clock.wall_ms
    monkeypatch.setattr(clock, "wall_ms", lambda: wall_ms() - ahead_ms)

    facts = facts_of(own)

    assert facts.clock_ahead_ms == pytest.approx(ahead_ms, abs=2_000)
    assert codes(facts) == {"clock"}


def test_product_and_version_are_read(start_server: StartServer) -> None:
    own = start_server(appendonly=True)

    facts = facts_of(own)

    assert facts.product == ("valkey" if own.binary.name.startswith("valkey") else "redis")
    assert f"v={facts.version}" in own.binary.version()


def test_user_with_few_rights_is_asked_for_nothing_that_is_refused(
    start_server: StartServer,
) -> None:
    own = start_server()
    client = own.client()
    client.acl_setuser("few", enabled=True, passwords=["+word"], commands=["+info", "+time"])
    client.execute_command("ACL", "LOG", "RESET")

    facts = facts_of(own, username="few", password="word")

    assert facts.has_append_only_file is False
    assert facts.has_save_points is None
    refused = [each["object"] for each in client.acl_log()]
    assert [name for name in refused if not name.startswith("client")] == []


def test_server_that_tells_nothing_is_not_held_responsible(start_server: StartServer) -> None:
    own = start_server()
    own.client().acl_setuser("mute", enabled=True, passwords=["+word"], commands=["+ping"])

    assert findings(facts_of(own, username="mute", password="word")) == []


def test_worker_warns_once_and_works_on(
    server: Server, make_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker(url=server.admin_url)
    caplog.set_level(logging.WARNING, CHECKS)

    def warnings() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.name == CHECKS and "[pers" in r.message]

    first = broker.consume("default", timeout=50)
    wait_until(warnings, message="the worker warns")
    second = broker.consume("other", timeout=50)
    assert next(first) is None
    assert next(second) is None

    assert len(warnings()) == 1
    assert "Set appendonly to yes" in warnings()[0]
    first.close()
    second.close()


def test_embedded_server_has_no_findings(tmp_path: Path) -> None:
    connections = Connections(url=f"embedded://{tmp_path}/q", client=None, parameters={})
    executor = connections.dedicated()

    assert findings(read_facts(executor)) == []

    executor.close()
