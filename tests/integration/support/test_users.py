"""Brokers under test are whom `TEST_USER` names; the tests themselves may do everything."""

import pytest
import redis
from redis.exceptions import NoPermissionError

from dramatiq_streams import StreamsBroker
from tests.conftest import StartServer
from tests.support.proxy import FaultyProxy
from tests.support.users import LEAST_PRIVILEGE, documented_user, user_under_test


def whoami(url: str) -> str:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        told: str = client.client_info()["user"]
        return told


def test_user_is_none_the_default_or_the_documented_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "default"):
        monkeypatch.setenv("TEST_USER", name)
        assert user_under_test() is None
    monkeypatch.setenv("TEST_USER", LEAST_PRIVILEGE)
    user = user_under_test()
    assert user is not None
    assert user.granted() == documented_user().granted() > {"xadd", "client|info"}
    monkeypatch.setenv("TEST_USER", "least-priviledge")
    with pytest.raises(ValueError, match="TEST_USER is 'least-priviledge'"):
        user_under_test()


def test_urls_are_for_the_user_and_clients_are_not(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_USER", LEAST_PRIVILEGE)
    own = start_server(tcp=True)
    user = documented_user().name

    with FaultyProxy(own) as proxy:
        assert [whoami(url) for url in (own.url, own.tcp_url, proxy.url)] == [user] * 3
    assert whoami(own.admin_url) == "default"
    own.restart()
    assert own.client().config_get("maxmemory")
    with pytest.raises(NoPermissionError):
        redis.Redis.from_url(own.url).config_get("maxmemory")
    assert StreamsBroker(url=own.url).client.get("{test-1:any}") is None
    with pytest.raises(NoPermissionError):
        StreamsBroker(url=own.url).client.get("any")


def test_lent_rights_last_as_long_as_they_are_lent(start_server: StartServer) -> None:
    own = start_server(user=documented_user())
    key = "{dramatiq-streams:any}"

    with redis.Redis.from_url(own.url) as client:
        with own.granting(["+set"]):
            assert client.set(key, 1)
        with pytest.raises(NoPermissionError):
            client.set(key, 2)
        with pytest.raises(ValueError, match=r"'get'.* already"), own.granting(["+get"]):
            pytest.fail("it would be taken away at the end")
        assert client.get(key) == b"1"

    assert [each["object"] for each in own.refusals] == ["set"]
