import gzip
import random
import socket
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from crawl_actors.fetching import FetchLimits, Page, fetch
from crawl_actors.robots import MAX_ROBOTS_BYTES

from .conftest import RawServer

LIMITS = FetchLimits(deadline_ms=5_000, max_body_bytes=1_000_000)
OK = b"HTTP/1.1 200 OK\r\n"


def get(url: str, limits: FetchLimits = LIMITS) -> Page:
    return fetch(url, limits=limits, user_agent="crawl-actors-test/1.0")


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        (b"gzip", gzip.compress),
        (b"x-gzip", gzip.compress),
        (b"GZIP", gzip.compress),
        (b"deflate", zlib.compress),
        (b"deflate", lambda body: zlib.compress(body, wbits=-15)),
        (b"identity, gzip", lambda body: gzip.compress(body[:9]) + gzip.compress(body[9:])),
    ],
)
def test_compressed_bodies_are_decoded(
    raw_server: RawServer, encoding: bytes, compress: Callable[[bytes], bytes]
) -> None:
    body = random.Random(1).randbytes(200_000) + b"a" * 300_000
    head = OK + b"Content-Encoding: " + encoding + b"\r\n\r\n"

    page = get(raw_server.answer(head + compress(body)))

    assert (page.error, page.body) == (None, body)


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_decompression_bomb_is_cut_with_little_memory(
    raw_server: RawServer, framing: str
) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    head = OK + b"Content-Encoding: gzip\r\n"
    if framing == "length":
        answer = head + b"Content-Length: %d\r\n\r\n" % len(bomb) + bomb
    elif framing == "chunked":
        chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(bomb), bomb)
        answer = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    else:
        answer = head + b"\r\n" + bomb
    url = raw_server.answer(answer)

    tracemalloc.start()
    page = get(url)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (page.error, page.status) == ("too_large", 200)
    assert page.body == b"\0" * LIMITS.max_body_bytes
    assert peak < 8 * LIMITS.max_body_bytes


def test_a_body_at_the_limit_is_whole_and_one_byte_more_is_cut(raw_server: RawServer) -> None:
    limits = FetchLimits(max_body_bytes=1000)

    whole = get(
        raw_server.answer(OK + b"Connection: close\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000),
        limits,
    )
    cut = get(raw_server.answer(OK + b"Content-Length: 1001\r\n\r\n" + b"x" * 1001), limits)

    assert (whole.error, len(whole.body)) == (None, 1000)
    assert (cut.error, len(cut.body), cut.is_retryable) == ("too_large", 1000, False)


def test_an_endless_body_is_cut(raw_server: RawServer) -> None:
    url = raw_server.run(lambda connection: _send_for_ever(connection, OK + b"\r\n"))

    page = get(url, FetchLimits(max_body_bytes=3 * MAX_ROBOTS_BYTES))

    assert (page.error, len(page.body)) == ("too_large", 3 * MAX_ROBOTS_BYTES)


def _send_for_ever(connection: socket.socket, head: bytes) -> None:
    connection.sendall(head)
    while True:
        connection.sendall(b"x" * 65536)
