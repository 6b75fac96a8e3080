"""Every option of the constructor, with wrong types and ranges: refused at once, and named."""

from __future__ import annotations

import inspect
import math
import socket
from pathlib import Path
from typing import Any

import pytest
import redis
from dramatiq.middleware import Retries
from hypothesis import given
from hypothesis import strategies as st
from redis.cache import CacheConfig
from redis.event import EventDispatcher

from dramatiq_streams import InvalidOption, SigningEncoder, StreamsBroker
from tests.properties.bad_input.fuzzing import FACTOR, fuzzed, picked, values

pytestmark = [
    pytest.mark.timeout(60 * FACTOR),
    # redis-py's own, of lib_name and lib_version.
    pytest.mark.filterwarnings("ignore:.*deprecated usage of input argument:DeprecationWarning"),
]

NO_NUMBERS: list[Any] = [
    *(None, True, False, "5", b"5", "", [], {}, (), object(), 1j, math.nan, math.inf, 1.5),
    *(-1, 10**30, 10**5000, -(10**400)),
]
NO_TEXT: list[Any] = [True, 5, 1.5, b"x", [], {}, object(), ""]
NUMBERS = [
    *("lease", "disconnect_grace", "max_deliveries", "enqueue_timeout"),
    *("dead_message_ttl", "max_dead_messages"),
    *("wait_replicas", "wait_timeout", "max_message_bytes"),
    *("spool_max_messages", "spool_max_bytes"),
]
WRONG: dict[str, list[Any]] = {
    **dict.fromkeys(NUMBERS, NO_NUMBERS),
    "url": [*NO_TEXT, Path("x")],
    "client": [True, 5, "redis://h", object(), StreamsBroker],
    "namespace": [*NO_TEXT, None, "a b", "{a}", "x" * 129, "\ud800", "a\n"],
    "middleware": [5, "x", [None], [Retries], ["x"], {"a": 1}, object()],
    "lanes": [
        *("high", b"high", 5, [], {}, [1], ["a", "a"], [""], ["a b"], {"a": "x"}, {"a": -1}),
        *({"a": math.nan}, {"a": 0, "b": 0}, {"a": 50, "b": 50}, {"a": True, "b": 1}, {1: 1}),
        *([[]], {"a": 10**5000}, ["a"] * 65, object(), {"a", "b"}, ["\ud800"], ["é"]),
    ],
    "spool": [5, True, b"x", "", [], "\0", "/", "/none/such/file", "\ud800/x"],
    "host": [5, "", "a b", "a..b", "x" * 300, b"h", []],
    "port": [0, -1, 65_536, "x", "", 1.5, True, [], b"1"],
    "db": [-1, "x", "", 1.5, True, 2**31, [], b"1"],
    "username": [5, True, [], "\ud800"],
    "password": [5, True, [], "\ud800"],
    "client_name": ["", "a b", "é", 5, "a\n"],
    "socket_timeout": [0, -1, "x", True, math.nan, math.inf, [], 10**400],
    "socket_connect_timeout": [0, -1, "x", True, math.nan, math.inf, [], 10**400],
    "health_check_interval": [-1, "x", math.nan, math.inf, True],
    "encoding": [5, "none-such", "", b"utf-8"],
    "encoding_errors": [5, "none-such"],
    "credential_provider": ["x", 5],
    "connection_pool": [7, "x", object(), redis.ConnectionPool()],
    "single_connection_client": [True, 1, "x"],
    "cache": [7, object()],
    "cache_config": [7, CacheConfig()],
    "event_dispatcher": [7, 0, "", [], {}, object(), str],
    "maint_notifications_config": [7, True, "x", {}, object()],
    "oss_cluster_maint_notifications_handler": [7, "x"],
    "command_packer": [7, 0, "", object()],
    "socket_keepalive_options": [7, "x", [], {7: "x"}, {"x": 1}, {10**30: 1}, {4: 10**30}, {4: -1}],
    "socket_type": [7, -1, 10**30, True, "", math.nan, [], object()],
    "redis_connect_func": [7, "x", lambda: 1, lambda a, b: 1],
    "lib_name": ["\ud800", 7, [], object()],
    "lib_version": ["\ud800", True, {"a": 1}, object()],
    "unix_socket_path": [7, "\0", b"x", []],
    "ssl": [7, "x", 1.5, []],
    "heartbeat_timeout": [60_000],
    "maintenance_chance": [1],
    "none_such": [None, 1],
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_value_is_named_and_nothing_is_made(name: str) -> None:
    for value in WRONG[name]:
        with pytest.raises(InvalidOption, match=name) as raised:
            StreamsBroker(**{name: value})
        assert len(str(raised.value)) < 2_000


def test_option_that_would_connect_at_once_connects_to_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)

        with pytest.raises(InvalidOption, match="each thread has a connection of its own"):
            StreamsBroker(port=listening.getsockname()[1], single_connection_client=True)

        with pytest.raises(BlockingIOError):
            listening.accept()


@pytest.mark.parametrize(
    "options",
    [
        {"connection_pool": None, "single_connection_client": False, "ssl": False},
        {"socket_keepalive": True, "socket_keepalive_options": {socket.TCP_KEEPCNT: 3}},
        {"redis_connect_func": lambda connection: connection.on_connect()},
        {"lib_name": "mine", "lib_version": "1", "socket_keepalive_options": {}},
        {"event_dispatcher": EventDispatcher(), "ssl": True},
        {"maint_notifications_config": None, "cache": None},
    ],
)
def test_sensible_options_of_redis_are_taken(options: dict[str, Any]) -> None:
    StreamsBroker(**options)


def test_every_option_of_the_constructor_is_tried() -> None:
    parameters = set(inspect.signature(StreamsBroker).parameters) - {"redis_parameters"}

    assert parameters <= set(WRONG)


def test_password_is_not_shown() -> None:
    with pytest.raises(InvalidOption) as raised:
        StreamsBroker(password=["geheim"])

    assert "geheim" not in str(raised.value)


def test_any_options_make_a_broker_or_an_error_that_names_one_of_them() -> None:
    @fuzzed(80)
    @given(st.dictionaries(picked(list(WRONG)), values, min_size=1, max_size=3))
    def check(options: dict[str, Any]) -> None:
        try:
            StreamsBroker(**options)
        except InvalidOption as error:
            text = str(error)
            assert any(name in text for name in options)

    check()


@pytest.mark.parametrize("encoder", [5, "json", dict, object()])
def test_signing_encoder_takes_only_an_encoder(encoder: Any) -> None:
    with pytest.raises(InvalidOption, match="encoder="):
        SigningEncoder(["k" * 32], encoder=encoder)


@pytest.mark.parametrize("keys", [None, "k" * 32, b"", [], [5], ["short"], ["k" * 32] * 2, 5])
def test_signing_encoder_takes_only_secrets(keys: Any) -> None:
    with pytest.raises(InvalidOption, match="keys"):
        SigningEncoder(keys)
