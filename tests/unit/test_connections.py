import math
import socket
from typing import Any

import pytest
import redis
from redis.cluster import RedisCluster

from dramatiq_streams import StreamsBroker
from dramatiq_streams.connections import Connections
from dramatiq_streams.errors import GroupMissing, InvalidOption
from dramatiq_streams.failures import as_broker_error


def connections(url: str | None = None, client: Any = None, **parameters: Any) -> Connections:
    return Connections(url=url, client=client, parameters=parameters)


def settings(made: Connections) -> dict[str, Any]:
    """What a connection of the shared pool is made with."""
    return dict(made.client().connection_pool.connection_kwargs)


@pytest.mark.parametrize("name", ["OOM", "BUSY", "READONLY", "LOADING"])
def test_missing_group_is_told_whatever_its_queue_is_called(name: str) -> None:
    error = redis.ResponseError(f"NOGROUP No such key '{{ns:{name}:0}}:lane:high' in XREADGROUP")

    assert type(as_broker_error(error)) is GroupMissing


def test_default_is_redis_on_this_machine() -> None:
    made = settings(connections())

    assert (made["host"], made["port"]) == ("localhost", 6379)
    assert (made["socket_timeout"], made["socket_connect_timeout"]) == (10.0, 5.0)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://server:7000/3", {"host": "server", "port": 7000, "db": 3}),
        ("unix:///run/redis.sock", {"path": "/run/redis.sock"}),
        ("redis://user:secret@server", {"username": "user", "password": "secret"}),
        ("redis://server?socket_timeout=3", {"socket_timeout": 3.0}),
    ],
)
def test_url_says_where_and_how(url: str, expected: dict[str, Any]) -> None:
    made = settings(connections(url))

    assert made.items() >= expected.items()


def test_parameters_stand_beside_a_url() -> None:
    made = settings(connections("redis://server", socket_timeout=2, client_name="me"))

    assert (made["host"], made["socket_timeout"], made["client_name"]) == ("server", 2, "me")


def test_tls_comes_with_the_url() -> None:
    made = connections("rediss://server", ssl_cert_reqs="none").client().connection_pool

    assert made.connection_class is redis.SSLConnection


def test_parameters_of_a_client_are_used_and_not_its_connections() -> None:
    client = redis.Redis(host="server", port=7000, decode_responses=True, socket_timeout=3)

    made = connections(client=client)

    assert made.client().connection_pool is not client.connection_pool
    assert settings(made).items() >= {"host": "server", "port": 7000, "socket_timeout": 3}.items()


@pytest.mark.parametrize(
    "parameters",
    [
        {"decode_responses": True},
        {"protocol": 3},
        {"retry_on_timeout": True},
        {"retry_on_error": [redis.TimeoutError]},
    ],
)
def test_replies_are_bytes_in_resp2_and_nothing_is_retried(parameters: dict[str, Any]) -> None:
    made = settings(connections("redis://server", **parameters))

    assert (made["decode_responses"], made["protocol"]) == (False, 2)
    assert (made["retry_on_timeout"], made["retry_on_error"]) == (False, [])
    assert made["retry"].get_retries() == 0


def test_dedicated_connection_waits_longer_by_the_time_it_blocks() -> None:
    made = connections("redis://server", socket_timeout=2)

    pool = made.dedicated(blocking_ms=1_500)._pool

    assert pool.connection_kwargs["socket_timeout"] == 3.5


@pytest.mark.parametrize("url", [5, b"redis://server", ["redis://server"]])
def test_url_that_is_no_string_is_refused_once(url: Any) -> None:
    with pytest.raises(InvalidOption) as raised:
        connections(url)

    assert str(raised.value) == (
        f"url={url!r} is not possible: url must be a string such as redis://localhost:6379/0."
    )


@pytest.mark.parametrize("url", ["", "server:6379", "http://server", "redis://server:port"])
def test_impossible_url_is_named(url: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        connections(url)

    assert f"url={url!r} is not possible" in str(raised.value)


@pytest.mark.parametrize("password", ["secret", "sec@ret", "sec/ret"])
def test_password_of_an_impossible_url_is_not_shown(password: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        connections(f"redis://user:{password}@server:port")

    assert "url='redis://***@server:port'" in str(raised.value)
    assert password not in str(raised.value)


@pytest.mark.parametrize("url", [None, "redis://server"])
def test_unknown_parameter_is_named(url: str | None) -> None:
    with pytest.raises(InvalidOption, match="tmeout"):
        connections(url, tmeout=5)


@pytest.mark.parametrize("url", [None, "redis://server", "embedded://./queue", "sentinel://a/m"])
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("lane", "; did you mean 'lanes'?"),
        ("leese", "; did you mean 'lease'?"),
        ("pasword", "; did you mean 'password'?"),
        ("none_such", "."),
    ],
)
def test_option_that_nobody_has_is_named_with_a_similar_one(
    url: str | None, name: str, advice: str
) -> None:
    options: dict[str, Any] = {name: "secret"}

    with pytest.raises(InvalidOption) as raised:
        StreamsBroker(url=url, **options)

    assert str(raised.value) == (
        f"{name}= is not possible: it is no option of StreamsBroker or of redis.Redis{advice}"
    )


def test_option_of_another_broker_is_explained() -> None:
    with pytest.raises(InvalidOption, match="In place of RedisBroker's heartbeat_timeout"):
        StreamsBroker(url="redis://server", heartbeat_timeout=5)


def test_option_of_connections_only_is_possible_beside_a_url() -> None:
    StreamsBroker(url="redis://server", socket_type=socket.AF_INET)


def test_tls_option_beside_a_plain_url_is_explained() -> None:
    with pytest.raises(InvalidOption, match="use a rediss:// URL"):
        connections("redis://server", ssl=True)


@pytest.mark.parametrize("option", ["socket_timeout", "socket_connect_timeout"])
@pytest.mark.parametrize(
    "value", [0, -1, "5", True, math.nan, math.inf, 86_401, 10**400], ids=lambda v: repr(v)[:20]
)
def test_impossible_socket_timeout_is_named_with_what_is_allowed(option: str, value: Any) -> None:
    with pytest.raises(InvalidOption) as raised:
        connections("redis://server", **{option: value})

    assert f"{option}={value!r} is not possible" in str(raised.value)
    assert "seconds above 0" in str(raised.value)


def test_no_socket_timeout_means_the_default_one() -> None:
    made = settings(connections("redis://server", socket_timeout=None))

    assert made["socket_timeout"] == 10.0


def test_client_is_complete_in_itself() -> None:
    with pytest.raises(InvalidOption, match=r"leave out url, db, socket_timeout\.$"):
        connections("redis://server", redis.Redis(), socket_timeout=1, db=2)


@pytest.mark.parametrize("client", [object(), "redis://server", RedisCluster])
def test_client_of_another_kind_is_refused(client: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^client=.* must be a redis.Redis"):
        connections(client=client)
