from pathlib import Path
from typing import Any

import pytest
import redis

from dramatiq_streams.connections import Connections
from dramatiq_streams.errors import InvalidOption
from dramatiq_streams.sentinel import (
    Masters,
    SentinelConnection,
    SentinelSSLConnection,
    sentinel_pool_parameters,
)


def parameters(url: str, **options: Any) -> dict[str, Any]:
    return sentinel_pool_parameters(url, options)


def masters(url: str, **options: Any) -> Masters:
    found: Masters = parameters(url, **options)["masters"]
    return found


@pytest.mark.parametrize(
    ("hosts", "addresses"),
    [
        ("h1", [("h1", 26379)]),
        ("h1:7000", [("h1", 7000)]),
        ("h1,h2:7001,h3", [("h1", 26379), ("h2", 7001), ("h3", 26379)]),
        ("[::1]:7000,10.0.0.1", [("::1", 7000), ("10.0.0.1", 26379)]),
        ("user:secret@h1,h2", [("h1", 26379), ("h2", 26379)]),
    ],
)
def test_url_names_the_sentinels(hosts: str, addresses: list[tuple[str, int]]) -> None:
    assert masters(f"sentinel://{hosts}/mymaster").sentinels == addresses


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sentinel://h/mymaster", {}),
        ("sentinel://h/mymaster/3", {"db": 3}),
        ("sentinel://h/mymaster?db=4", {"db": 4}),
        ("sentinel://h/mymaster?socket_timeout=3", {"socket_timeout": 3.0}),
        ("sentinel://ada:p%40ss@h/mymaster", {"username": "ada", "password": "p@ss"}),
        ("sentinel://ada:p@ss/word@h/mymaster", {"username": "ada", "password": "p@ss/word"}),
        ("sentinel://:secret@h/mymaster", {"password": "secret"}),
    ],
)
def test_url_says_how_to_reach_the_server(url: str, expected: dict[str, Any]) -> None:
    made = parameters(url)

    assert made.pop("masters").service == "mymaster"
    assert made == {**expected, "connection_class": SentinelConnection}


def test_sentinels_have_options_of_their_own() -> None:
    url = (
        "sentinel://ada:secret@h/mymaster?socket_timeout=9"
        "&sentinel_username=guard&sentinel_password=other&sentinel_socket_timeout=0.2"
    )

    options = masters(url).options

    assert (options["username"], options["password"]) == ("guard", "other")
    assert (options["socket_timeout"], options["socket_connect_timeout"]) == (0.2, 1.0)


def test_password_of_the_server_is_not_told_to_the_sentinels() -> None:
    assert "password" not in masters("sentinel://ada:secret@h/mymaster").options


def test_tls_is_for_the_server_and_for_the_sentinels(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.touch()
    url = "sentinels://h/mymaster?ssl_cert_reqs=none"

    made = parameters(url, ssl_ca_certs=str(authority))

    assert made["connection_class"] is SentinelSSLConnection
    assert (made["ssl_cert_reqs"], made["ssl_ca_certs"]) == ("none", str(authority))
    assert made["masters"].options["ssl"] is True
    assert made["masters"].options["ssl_ca_certs"] == str(authority)


def test_sentinels_may_be_without_tls_beside_a_server_with_it() -> None:
    assert masters("sentinels://h/mymaster?sentinel_ssl=no").options["ssl"] is False


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("sentinel://h", "the service is ''"),
        ("sentinel://h/", "the service is ''"),
        ("sentinel://h/my master", "the service is 'my master'"),
        ("sentinel:///mymaster", "the sentinel ''"),
        ("sentinel://h1,,h2/mymaster", "the sentinel ''"),
        ("sentinel://h:port/mymaster", "the sentinel 'h:port'"),
        ("sentinel://h:0/mymaster", "the sentinel 'h:0'"),
        ("sentinel://h:70000/mymaster", "the sentinel 'h:70000'"),
        ("sentinel://h/mymaster/zero", "the database is 'zero'"),
        ("sentinel://h/mymaster/", "the database is ''"),
        ("sentinel://h/mymaster/1/2", "the database is '1/2'"),
        ("sentinel://h/mymaster?sentinel_nonsense=1", "nonsense"),
        ("sentinel://h/mymaster?nonsense=1", "nonsense"),
        ("sentinel://h/mymaster?sentinel_socket_timeout=soon", "socket_timeout"),
    ],
)
def test_impossible_url_is_explained(url: str, reason: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        Connections(url=url, client=None, parameters={})

    assert reason in str(raised.value)


def test_no_password_is_shown() -> None:
    url = "sentinel://ada:secret@h:0/mymaster?password=hidden&sentinel_password=covert"

    with pytest.raises(InvalidOption) as raised:
        Connections(url=url, client=None, parameters={})

    shown = str(raised.value)
    assert not any(word in shown for word in ("ada", "secret", "hidden", "covert"))


def test_nothing_is_connected_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something connects")

    monkeypatch.setattr(redis.Connection, "connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)

    Connections(url="sentinel://h/mymaster", client=None, parameters={}).shared()
