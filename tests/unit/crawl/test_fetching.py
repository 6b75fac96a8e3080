import gzip
import os
import random
import socket
import time

import pytest

from crawl_actors.fetching import FetchLimits, Page, fetch

from .conftest import RawServer

LIMITS = FetchLimits(deadline_ms=5_000, max_body_bytes=1_000_000)
SHORT = FetchLimits(deadline_ms=300)
OK = b"HTTP/1.1 200 OK\r\n"


def get(url: str, limits: FetchLimits = LIMITS) -> Page:
    return fetch(url, limits=limits, user_agent="crawl-actors-test/1.0")


def test_a_page_holds_what_the_server_said(raw_server: RawServer) -> None:
    before = time.time_ns() // 1_000_000
    url = raw_server.answer(
        OK + b"Content-Type: Text/HTML; Charset=ISO-8859-1\r\nContent-Length: 5\r\n\r\nhello"
    )

    page = get(url)

    assert (page.url, page.status, page.body) == (url, 200, b"hello")
    assert (page.content_type, page.charset) == ("text/html", "cp1252")
    assert (page.error, page.redirect_to, page.retry_after_ms) == (None, None, None)
    assert page.is_html
    assert not page.is_retryable
    assert before <= page.fetched_at <= before + 5_000
    assert 0 <= page.elapsed_ms <= 5_000


def test_one_request_is_made_as_ourselves_and_for_the_normal_form(raw_server: RawServer) -> None:
    url = raw_server.answer(OK + b"Content-Length: 0\r\n\r\n")

    get(f"{url}/a//./b?q=%7e&x=%2f%zz#fragment")

    (request,) = raw_server.requests
    lines = request.decode().split("\r\n")
    assert lines[0] == "GET //a//b?q=~&x=%2F%25zz HTTP/1.1"
    assert "User-Agent: crawl-actors-test/1.0" in lines
    assert "Accept-Encoding: gzip, deflate" in lines


def test_nothing_of_the_environment_or_of_cookies_is_sent(
    raw_server: RawServer, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    netrc = f"{tmp_path}/netrc"
    with open(netrc, "w", encoding="ascii") as file:
        file.write("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", netrc)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    url = raw_server.answer(OK + b"Set-Cookie: seen=1; Path=/\r\nConnection: close\r\n\r\n")

    pages = [get(url), get(url)]

    assert [page.status for page in pages] == [200, 200]
    for request in raw_server.requests:
        assert b"Authorization" not in request
        assert b"Cookie" not in request


@pytest.mark.parametrize(
    ("number", "kind", "is_retryable"),
    [(socket.EAI_AGAIN, "dns", True), (socket.EAI_NONAME, "unknown_host", False)],
)
def test_a_missing_name_is_told_from_name_servers_in_trouble(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: str, is_retryable: bool
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise socket.gaierror(number, "no")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    page = get("http://name.invalid/")

    assert (page.error, page.is_retryable) == (kind, is_retryable)


def test_a_name_with_an_impossible_label_is_an_unknown_host() -> None:
    assert get(f"http://{'a' * 64}.example/").error == "unknown_host"


def test_a_name_is_asked_at_each_of_its_addresses(raw_server: RawServer) -> None:
    url = raw_server.answer(OK + b"Content-Length: 2\r\n\r\nhi").replace("127.0.0.1", "localhost")

    assert get(url).body == b"hi"


def test_a_closed_port_is_no_connection() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    page = get(f"http://127.0.0.1:{port}/")

    assert (page.status, page.error, page.is_retryable) == (None, "connect", True)
    assert "refused" in (page.error_text or "")


@pytest.mark.parametrize("url", ["ftp://example.com/", "nonsense", "", "http://example.com:99999/"])
def test_what_is_no_web_address_is_not_asked_for(url: str) -> None:
    page = get(url)

    assert (page.url, page.error, page.is_retryable) == (url, "invalid_url", False)
    assert repr(url) in (page.error_text or "")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", "disconnected"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", "disconnected"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "disconnected"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhe", "disconnected"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n", "protocol"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "protocol"),
        (b"\0\1\2\3\r\n\r\n", "protocol"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "protocol"),
        (b"HTTP/1.1 99999 OK\r\n\r\n", "protocol"),
        (OK + b"X: " + b"x" * 70_000 + b"\r\n\r\n", "protocol"),
        (OK + b"X: x\r\n" * 200 + b"\r\n", "protocol"),
        (OK + b"Content-Length: 3, 5\r\n\r\nhello", "protocol"),
        (OK + b"Content-Encoding: gzip\r\n\r\nhello", "encoding"),
        (OK + b"Content-Encoding: br\r\n\r\nhello", "encoding"),
        (OK + b"Content-Encoding: gzip, gzip\r\n\r\nhello", "encoding"),
        (
            OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"hello" * 99, mtime=0)[:-9],
            "disconnected",
        ),
    ],
)
def test_a_broken_answer_is_an_outcome(raw_server: RawServer, answer: bytes, kind: str) -> None:
    page = get(raw_server.answer(answer))

    assert page.error == kind, page
    assert page.error_text


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (b"Content-Length: nonsense\r\n", b"hello"),
        (b"Content-Length: -5\r\n", b"hello"),
        (b"Content-Length:\r\n", b"hello"),
        (b"Content-Length: 5\r\nContent-Length: 5\r\n", b"hello"),
        (b"Content-Length: 5\r\n", b"hello and more"),
        (b"no colon at all\r\nContent-Length: 5\r\n", b"hello"),
        (b"X-Bytes: \xff\xfe\0\r\nContent-Length: 5\r\n", b"hello"),
        (b"Content-Type: \xff;;; charset=\xff\r\nContent-Length: 5\r\n", b"hello"),
        (b"Content-Encoding: identity\r\nContent-Length: 5\r\n", b"hello"),
        (b"Retry-After: soon\r\nContent-Length: 5\r\n", b"hello"),
    ],
)
def test_headers_that_make_no_sense_are_survived(
    raw_server: RawServer, headers: bytes, body: bytes
) -> None:
    page = get(raw_server.answer(OK + headers + b"\r\n" + body))

    assert (page.status, page.error) == (200, None)
    assert page.retry_after_ms is None


def test_no_answer_of_random_bytes_raises(raw_server: RawServer) -> None:
    generator = random.Random(7)
    pieces = [OK, b"HTTP/1.1 ", b"\r\n", b"\r\n\r\n", b": ", b"Content-Length", b"301", b"5", b";"]
    pieces += [
        b"Transfer-Encoding: chunked",
        b"Content-Encoding: gzip",
        b"Location",
        b"\xff",
        b"\0",
    ]

    def script(connection: socket.socket) -> None:
        chosen = generator.choices(pieces, k=generator.randrange(20))
        connection.sendall(b"".join([OK, *chosen] if generator.random() < 0.7 else chosen))

    url = raw_server.run(script)

    pages = [get(url) for _ in range(300)]

    assert all(page.status is not None or page.error for page in pages)
    assert not any(page.error == "timeout" for page in pages)


@pytest.mark.parametrize(
    ("status", "location", "expected"),
    [
        (301, b"/b?c#d", "http://host/b?c"),
        (302, b"https://Other.example:443", "https://other.example/"),
        (303, b"../x", "http://host/x"),
        (307, b"//other.example/x", "http://other.example/x"),
        (308, "/é".encode(), "http://host/%C3%A9"),
        (301, b"/\xe9", "http://host/%C3%A9"),
        (301, b"/a b", "http://host/a%20b"),
        (301, b"", "http://host/a/"),
        (301, b"mailto:a@example.com", None),
        (301, b"http://exa mple.com/", None),
        (200, b"/b", None),
        (300, b"/b", None),
        (404, b"/b", None),
    ],
)
def test_a_redirect_is_reported_and_not_followed(
    raw_server: RawServer, status: int, location: bytes, expected: str | None
) -> None:
    head = b"HTTP/1.1 %d X\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (status, location)
    url = raw_server.answer(head)

    page = get(f"{url}a/")

    assert (page.status, page.error) == (status, None)
    assert page.redirect_to == (expected and expected.replace("http://host/", url))
    assert len(raw_server.requests) == 1


def test_the_servers_wish_to_be_left_alone_is_read_and_capped(raw_server: RawServer) -> None:
    head = b"HTTP/1.1 429 X\r\nRetry-After: 7\r\nConnection: close\r\n\r\n"
    url = raw_server.answer(head)

    page, capped = get(url), get(url, FetchLimits(max_retry_after_ms=500))

    assert (page.retry_after_ms, page.is_retryable) == (7_000, True)
    assert capped.retry_after_ms == 500


def test_connections_are_kept_and_used_again(raw_server: RawServer) -> None:
    def script(connection: socket.socket) -> None:
        for _ in range(3):
            connection.sendall(OK + b"Content-Length: 2\r\n\r\nhi")
            if not connection.recv(65536):
                return

    url = raw_server.run(script)

    pages = [get(url) for _ in range(3)]

    assert [page.body for page in pages] == [b"hi"] * 3
    assert len(raw_server.requests) == 1


def test_a_connection_that_was_cut_short_is_not_used_again(raw_server: RawServer) -> None:
    small = FetchLimits(max_body_bytes=10)
    url = raw_server.answer(OK + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000)

    pages = [get(url, small) for _ in range(3)]

    assert [page.error for page in pages] == ["too_large"] * 3
    assert len(raw_server.requests) == 3


def test_a_connection_closed_by_the_server_is_opened_again(raw_server: RawServer) -> None:
    url = raw_server.answer(OK + b"Content-Length: 2\r\n\r\nhi")

    pages = [get(url) for _ in range(5)]

    assert {page.error for page in pages} <= {None, "disconnected"}
    assert pages[0].body == b"hi"


# A fork of a process with threads is what is tried here; Python 3.12 and later warn of it.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_does_not_use_its_parents_connections(raw_server: RawServer) -> None:
    def script(connection: socket.socket) -> None:
        for _ in range(3):
            connection.sendall(OK + b"Content-Length: 2\r\n\r\nhi")
            if not connection.recv(65536):
                return

    url = raw_server.run(script)
    get(url)

    pid = os.fork()
    if pid == 0:
        os._exit(0 if get(url).body == b"hi" else 1)
    _, status = os.waitpid(pid, 0)
    page = get(url)

    assert status == 0
    assert page.body == b"hi"
    assert len(raw_server.requests) == 2


def test_a_server_that_speaks_no_tls_is_told_apart(raw_server: RawServer) -> None:
    url = raw_server.answer(b"HTTP/1.0 400 Bad Request\r\n\r\n").replace("http:", "https:")

    page = get(url, SHORT)

    assert page.error in ("tls", "timeout")
    assert page.status is None


@pytest.mark.parametrize("user_agent", ["", "  ", "a\r\nX-Injected: 1", "é", "a\0"])
def test_a_user_agent_that_is_no_header_is_named(user_agent: str) -> None:
    with pytest.raises(ValueError, match="user_agent"):
        fetch("http://127.0.0.1/", limits=LIMITS, user_agent=user_agent)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1", None])
def test_a_limit_that_is_no_limit_is_named(value: object) -> None:
    with pytest.raises(ValueError, match=r"deadline_ms .* not"):
        FetchLimits(deadline_ms=value)  # type: ignore[arg-type]
