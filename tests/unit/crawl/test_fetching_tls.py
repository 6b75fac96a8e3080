import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest

from crawl_actors.fetching import FetchLimits, Page, fetch

from .conftest import RawServer

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

OK = b"HTTP/1.1 200 OK\r\n"
LATEST_S = 10  # for a busy machine; the servers here hold out three times as long


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file with a self-signed certificate of 127.0.0.1 and its key."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "certificate")]
    subprocess.run(
        [*command.split(), "-addext", "subjectAltName=IP:127.0.0.1", *files],
        check=True,
        capture_output=True,
    )
    both = folder / "both"
    both.write_text((folder / "key").read_text() + (folder / "certificate").read_text())
    return both


@pytest.fixture
def tls_server(raw_server: RawServer, certificate: Path) -> RawServer:
    """A raw server that speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    raw_server.wrap = lambda connection: context.wrap_socket(connection, server_side=True)
    return raw_server


def get(url: str, *, deadline_ms: int = 5_000) -> Page:
    limits = FetchLimits(deadline_ms=deadline_ms)
    return fetch(url.replace("http:", "https:"), limits=limits, user_agent="crawl-actors-test/1.0")


def test_a_certificate_that_nobody_vouches_for_is_refused(tls_server: RawServer) -> None:
    url = tls_server.answer(OK + b"Content-Length: 2\r\n\r\nhi")

    page = get(url)

    assert (page.error, page.status, page.is_retryable) == ("tls", None, False)
    assert "self-signed" in (page.error_text or "")
    assert tls_server.requests == []


def test_certificates_of_ones_own_can_be_trusted(
    tls_server: RawServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    url = tls_server.answer(OK + b"Content-Length: 2\r\n\r\nhi")

    page = get(url)

    assert (page.error, page.body) == (None, b"hi")


def test_a_server_that_drips_through_tls_is_left_at_the_deadline(
    tls_server: RawServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    url = tls_server.drip(OK + b"\r\n", b"x")

    started = time.monotonic()
    page = get(url, deadline_ms=400)

    assert (page.error, page.status) == ("timeout", 200)
    assert time.monotonic() - started < LATEST_S


def test_a_handshake_that_drips_is_left_at_the_deadline(raw_server: RawServer) -> None:
    def drip(connection: socket.socket) -> socket.socket:
        # The head of a TLS record of 16 KiB, which then never fills.
        connection.sendall(b"\x16\x03\x03\x40\x00")
        while not raw_server.released.wait(0.02):
            connection.sendall(b"\0")
        return connection

    raw_server.wrap = drip

    started = time.monotonic()
    page = get(raw_server.url, deadline_ms=400)

    assert (page.error, page.status) == ("timeout", None)
    assert 0.39 <= time.monotonic() - started < LATEST_S
