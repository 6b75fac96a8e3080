"""Serves the demo's site on the loopback interface and remembers every request."""

from __future__ import annotations

import gzip
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast

from crawl_actors.demo.resources import Answer, Delivery, Resource

Find = Callable[[str], Resource | None]

_DROPS_PER_SECOND = 10
_NOT_FOUND = Answer(404, "text/plain", b"There is nothing here, and nothing links to it.")


@dataclass(frozen=True, slots=True)
class Visit:
    """One request as the server saw it.

    Args:
        url: With the host that was asked for, spelled as it was.
        number: How many requests for this URL there were, this one included.
        at_s: When it arrived, on this process's monotonic clock.
        not_before_s: When the answer allows the next request for this URL, on the same clock.
        retry_at: The same instant in seconds since 1970, when the answer named one.
    """

    url: str
    method: str
    user_agent: str
    number: int
    at_s: float
    not_before_s: float
    retry_at: float | None = None


class DemoServer:
    """An HTTP server on a free port of 127.0.0.1, for as long as the `with` block lasts.

    It answers from the moment the block begins; until `publish` was called there is nothing on it.
    """

    def __init__(self) -> None:
        self._http = _HttpServer(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self.origin = f"http://localhost:{self._http.server_port}"

    def publish(self, find: Find) -> None:
        """Answer with what *find* returns for a URL."""
        self._http.find = find

    @property
    def visits(self) -> tuple[Visit, ...]:
        """The requests so far, as they arrived."""
        with self._http.lock:
            return tuple(self._http.visits)

    def forget_visits(self) -> None:
        """Start again: pages that heal are broken again."""
        with self._http.lock:
            self._http.visits.clear()
            self._http.counts.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.find: Find = lambda url: None
        self.lock = threading.Lock()
        self.visits: list[Visit] = []
        self.counts: Counter[str] = Counter()
        self.closing = threading.Event()

    def record(self, url: str, *, method: str, user_agent: str) -> tuple[Answer, Visit]:
        """Remember a request and choose its answer."""
        at_s, now = time.monotonic(), time.time()
        resource = self.find(url)
        with self.lock:
            self.counts[url] += 1
            number = self.counts[url]
            answer = resource.nth_answer(number) if resource else _NOT_FOUND
            retry_at = _retry_at(answer, now)
            not_before_s = at_s if retry_at is None else at_s + retry_at - now
            visit = Visit(url, method, user_agent, number, at_s, not_before_s, retry_at)
            self.visits.append(visit)
        return answer, visit

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report trouble of our own; a client that hangs up on a slow page does its duty."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 30

    def do_GET(self) -> None:
        answer, visit = self._record()
        if answer.delivery is Delivery.HUNG_UP:
            self.close_connection = True
            return
        body = gzip.compress(answer.body, mtime=0) if answer.gzip else answer.body
        self._send_head(answer, visit, length=len(body))
        closing = cast(_HttpServer, self.server).closing
        for drop in _drops(answer, body):
            self.wfile.write(drop)
            if answer.delivery is not Delivery.WHOLE and closing.wait(1 / _DROPS_PER_SECOND):
                self.close_connection = True
                return

    def do_POST(self) -> None:
        """Nobody has a reason to ask like this, so it is remembered and refused."""
        self._record()
        self.send_error(405)

    def do_HEAD(self) -> None:
        """Refused as well; a crawler that asks twice for each page is found by it."""
        self.do_POST()

    def _record(self) -> tuple[Answer, Visit]:
        return cast(_HttpServer, self.server).record(
            f"http://{self.headers.get('Host', '')}{self.path}",
            method=self.command,
            user_agent=self.headers.get("User-Agent", ""),
        )

    def _send_head(self, answer: Answer, visit: Visit, *, length: int) -> None:
        self.send_response(answer.status)
        if answer.content_type is not None:
            self.send_header("Content-Type", answer.content_type)
        for name, value in answer.headers:
            self.send_header(name, value)
        if answer.gzip:
            self.send_header("Content-Encoding", "gzip")
        if visit.retry_at is not None:
            date = formatdate(visit.retry_at, usegmt=True)
            self.send_header(
                "Retry-After", date if answer.retry_after_is_date else str(answer.retry_after)
            )
        if answer.delivery in (Delivery.ENDLESS, Delivery.STALLED):
            self.send_header("Connection", "close")
        elif answer.status != 204:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - the base's name
        """Requests are remembered, not printed."""


def _drops(answer: Answer, body: bytes) -> Iterator[bytes]:
    """The pieces that *body* is sent in; the server pauses after each unless it is WHOLE."""
    if answer.delivery is Delivery.WHOLE:
        yield body
    elif answer.delivery is Delivery.SLOW:
        size = max(1, round(len(body) / (answer.seconds * _DROPS_PER_SECOND)))
        yield from (body[start : start + size] for start in range(0, len(body), size))
    else:
        while True:
            yield b"drip " if answer.delivery is Delivery.ENDLESS else b""


def _retry_at(answer: Answer, now: float) -> float | None:
    """When the client may come again, in seconds since 1970; a date has whole seconds."""
    if answer.retry_after is None:
        return None
    at = now + answer.retry_after
    return math.ceil(at) if answer.retry_after_is_date else at
