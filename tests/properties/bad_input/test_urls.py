"""URLs: every part of every scheme, wrong in every way, is refused when the broker is made."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_streams import InvalidOption, StreamsBroker
from tests.properties.bad_input.fuzzing import CLEAR, FACTOR, fuzzed, picked, values
from tests.support.servers import Server

IMPOSSIBLE = [
    *("", "x", "localhost", "//localhost", "http://localhost", "REDIS://h", "redis:/h", "redis//h"),
    *("redis://h:0", "redis://h:65536", "redis://h:-1", "redis://h:x", "redis://h:99999999999"),
    *("redis://h/x", "redis://h/-1", "redis://h/1/2", "redis://h/1.5", "redis://h/99999999999"),
    *("redis://h?db=x", "redis://h?db=-1", "redis://h?db=", "redis://h?db", "redis://h?x=1"),
    *("redis://h?socket_timeout=x", "redis://h?socket_timeout=nan", "redis://h?socket_timeout=0"),
    *("redis://h?port=x", "redis://h?health_check_interval=-1", "redis://h?encoding=none-such"),
    *("redis://h?credential_provider=x", "redis://h?redis_connect_func=x", "redis://h?retry=x&y=1"),
    *("redis://h?client_name=a%20b", "redis://h?socket_read_size=0", "redis://h?parser_class=x"),
    *("redis://h?max_connections=-1", "redis://h?idle_timeout=5", "redis://h?heartbeat_timeout=5"),
    *("redis://a..b", "redis://h%00", "redis://h\n", "redis://h h", "redis://[::1", "redis://h#1"),
    *("redis://:%ff@h", "redis://h/%ff", "redis://h?client_name=%ff", "redis://:pa#ss@h:1"),
    *("redis://:1#2@h", "redis://:1/2@h", "redis://:1?2@h"),
    *("rediss://h?ssl_cert_reqs=x", "rediss://h?ssl_min_version=1", "redis://h?ssl_keyfile=x"),
    *("rediss://h?ssl_ca_certs=/nowhere/ca.pem", "rediss://h?ssl_ca_path=/nowhere"),
    *("unix://", "unix:///", "unix://path/to", "unix:///a%00b", "unix:///a?db=x", "unix:///%ff"),
    *("sentinel://", "sentinel://h", "sentinel://h/", "sentinel://h/s/x", "sentinel://h:0/s"),
    *("sentinel://h:x/s", "sentinel://,/s", "sentinel://h/s?db=x", "sentinel://h/s?sentinel_x=1"),
    *("sentinel://h/s?sentinel_socket_timeout=x", "sentinels://h/s p", "sentinel://h/s?x=1"),
    *("embedded:", "embedded://", "embedded:///", "embedded://a?x=1", "embedded://a#b"),
    *("embedded://%ff", "embedded://a%00b", "embedded://~nobody-here/x"),
]
POSSIBLE = [
    *("redis://", "redis:///0", "redis://:6379", "redis://h", "redis://h:1/15", "redis://u:p@h/0"),
    *("redis://[::1]:6379", "redis://h?socket_timeout=2.5", "redis://:100%@h", "redis://:%40@h"),
    *("redis://h?db=3", "rediss://h?ssl_cert_reqs=none", "unix:///run/x.sock?db=1"),
    *("unix://u:p@/run/x", "sentinel://h1,h2:1/s/3", "sentinels://h/s", "embedded://data/queue"),
]

schemes = picked(["redis", "rediss", "unix", "sentinel", "sentinels", "embedded", "http", "", "R"])
parts = st.one_of(
    st.text(max_size=6),
    picked(["", "h", "localhost", "127.0.0.1", "[::1]", "a..b", "h,i", "%ff", "%zz", "%00", "é"]),
)
numbers = st.one_of(picked(["", "0", "6379", "65536", "-1", "x", "1.5", "9" * 30, "٣"]), parts)
pairs = st.tuples(
    picked(
        [
            *("db", "socket_timeout", "port", "host", "path", "encoding", "username", "x", ""),
            *("retry", "parser_class", "protocol", "health_check_interval", "sentinel_db"),
            *("credential_provider", "redis_connect_func", "client_name", "max_connections"),
        ]
    ),
    numbers,
).map("=".join)
urls = st.builds(
    lambda scheme, user, host, port, path, query: (
        f"{scheme}://{user}{host}{port}{path}" + (f"?{'&'.join(query)}" if query else "")
    ),
    schemes,
    st.one_of(st.just(""), st.tuples(parts, parts).map(lambda pair: f"{pair[0]}:{pair[1]}@")),
    parts,
    st.one_of(st.just(""), numbers.map(lambda port: f":{port}")),
    st.one_of(st.just(""), numbers.map(lambda path: f"/{path}"), st.just("/s/0")),
    st.lists(pairs, max_size=2),
)


@pytest.mark.parametrize("url", IMPOSSIBLE)
def test_impossible_url_is_refused_when_the_broker_is_made(url: str) -> None:
    with pytest.raises(InvalidOption, match=r"is not possible|takes no options|option") as raised:
        StreamsBroker(url=url)

    assert len(str(raised.value)) < 1_000


@pytest.mark.parametrize("url", POSSIBLE)
def test_possible_url_is_taken(url: str) -> None:
    StreamsBroker(url=url)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "redis://:geheim@h:x",
            "redis://u:geheim@h/x",
            "redis://:geh/eim@h",
            "redis://:geheim@h#x",
        ),
        *("redis://h?password=geheim&x=1", "sentinel://:geheim@h:x/s", "unix://:geheim@h/x"),
    ],
)
def test_password_is_not_shown_with_an_impossible_url(url: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        StreamsBroker(url=url)

    assert "geheim" not in str(raised.value)
    assert "'geh'" not in str(raised.value)


@pytest.mark.timeout(60 * FACTOR)
def test_any_url_is_refused_when_the_broker_is_made_or_fails_clearly_where_it_is_used() -> None:
    @fuzzed(150)
    @given(urls | values)
    def check(url: Any) -> None:
        try:
            broker = StreamsBroker(url=url, enqueue_timeout=0, socket_connect_timeout=0.01)
        except InvalidOption:
            return
        # Nothing is started, and no name is asked for, where it could take long.
        if url is None or not url.startswith(("redis://127.0.0.1", "redis://localhost", "unix:")):
            return
        try:
            broker.declare_queue("queue")
            broker.join("queue", timeout=0)
        except CLEAR:
            return
        finally:
            broker.close()

    check()


def test_database_that_the_server_does_not_have_is_an_error_that_says_so(server: Server) -> None:
    broker = StreamsBroker(url=server.url, enqueue_timeout=0)
    broker.close()
    wrong = StreamsBroker(url=f"{server.url.partition('?')[0]}?db=2000", enqueue_timeout=0)

    with pytest.raises(CLEAR, match=r"(?i)db index"):
        wrong.join("queue", timeout=0)

    wrong.close()
