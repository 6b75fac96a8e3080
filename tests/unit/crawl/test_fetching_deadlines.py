import gzip
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from crawl_actors.fetching import FetchLimits, Page, fetch

from .conftest import RawServer

LIMITS = FetchLimits(deadline_ms=5_000, max_body_bytes=1_000_000)
SHORT = FetchLimits(deadline_ms=300)
OK = b"HTTP/1.1 200 OK\r\n"
LATEST_S = 10  # for a busy machine; the servers here hold out three times as long


def get(url: str, limits: FetchLimits = LIMITS) -> Page:
    return fetch(url, limits=limits, user_agent="crawl-actors-test/1.0")


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 200",
        OK + b"X-Slow: ",
        OK + b"\r\n",
        OK + b"Content-Length: 1000000\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ],
)
def test_a_server_that_falls_silent_is_left_at_the_deadline(
    raw_server: RawServer, head: bytes
) -> None:
    url = raw_server.stall(head)

    started = time.monotonic()
    page = get(url, SHORT)

    assert page.error == "timeout"
    assert page.is_retryable
    assert 0.29 <= time.monotonic() - started < LATEST_S


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (b"HTTP/1.1 200 ", b"K"),
        (OK + b"X-Slow: ", b"x"),
        (OK, b"X-More: 1\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (OK + b"\r\n", b"x"),
        (OK + b"Content-Length: 1000000\r\n\r\n", b"x"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Trailer: 1\r\n"),
        (
            OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"", mtime=0)[:10],
            b"\0\0\0\xff\xff",
        ),
    ],
)
def test_a_server_that_drips_is_left_at_the_deadline(
    raw_server: RawServer, head: bytes, drop: bytes
) -> None:
    url = raw_server.drip(head, drop)

    started = time.monotonic()
    page = get(url, SHORT)

    # A header may have so many lines that the answer is no HTTP before the time is over.
    assert page.error == "timeout"
    assert time.monotonic() - started < LATEST_S


def test_a_page_that_came_too_late_keeps_its_head_and_the_beginning(raw_server: RawServer) -> None:
    url = raw_server.stall(OK + b"Content-Type: text/html\r\nContent-Length: 9\r\n\r\nhello")

    page = get(url, SHORT)

    assert (page.error, page.status, page.content_type) == ("timeout", 200, "text/html")


def test_a_server_that_accepts_nothing_is_left_at_the_deadline() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        # The backlog is full: the kernel drops the handshakes of further connections.
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))

        started = time.monotonic()
        page = get(f"http://127.0.0.1:{port}/", SHORT)

        for one in waiting:
            one.close()
    assert page.error == "timeout"
    assert 0.29 <= time.monotonic() - started < LATEST_S


def test_name_servers_that_do_not_answer_are_left_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = threading.Event()

    def never(*args: object, **options: object) -> None:
        released.wait(30)
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(socket, "getaddrinfo", never)

    started = time.monotonic()
    page = get("http://slow.invalid/", SHORT)
    elapsed = time.monotonic() - started
    released.set()

    assert page.error == "timeout"
    assert 0.29 <= elapsed < LATEST_S


def test_a_redirect_does_not_wait_for_its_body(raw_server: RawServer) -> None:
    url = raw_server.stall(b"HTTP/1.1 302 X\r\nLocation: /b\r\nContent-Length: 999\r\n\r\n")

    page = get(url)

    assert (page.error, page.redirect_to) == (None, f"{url}b")
    assert page.elapsed_ms < 4_000


def test_threads_do_not_share_a_deadline(raw_server: RawServer) -> None:
    url = raw_server.stall(OK + b"Content-Length: 10\r\n\r\n")
    limits = [FetchLimits(deadline_ms=wait) for wait in (200, 400, 600, 800)]

    with ThreadPoolExecutor(4) as pool:
        pages = list(pool.map(lambda one: get(url, one), limits))

    assert [page.error for page in pages] == ["timeout"] * 4
    for page, one in zip(pages, limits, strict=True):
        assert one.deadline_ms - 10 <= page.elapsed_ms < one.deadline_ms + 1_000 * LATEST_S
