"""One HTTP request, within limits, to a `Page`.

A transport per thread keeps connections open between requests to the same site. It stands alone,
without a `requests.Session`: that would read the whole body of a redirect, and would bring cookies,
.netrc and proxies from the environment, so that a page would depend on which worker asked.
(REQUESTS_CA_BUNDLE is honoured.)
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Final

import requests

from crawl_actors.deadlines import Deadline, DeadlineAdapter
from crawl_actors.decoding import ACCEPTED_ENCODINGS, decoded
from crawl_actors.failures import FAILURES, describe, kind_of
from crawl_actors.headers import media_type, redirect_target, retry_after_ms
from crawl_actors.pages import Page
from crawl_actors.urls import canonical_url

__all__ = ["FetchLimits", "Page", "fetch"]

_CHUNK_BYTES: Final = 64 * 1024
_local = threading.local()


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What one request may cost: *deadline_ms* covers everything from the name to the last byte.

    *max_body_bytes* counts the decoded body; *max_retry_after_ms* caps what a server may ask for.

    Raises:
        ValueError: When one is not a whole number above 0.
    """

    deadline_ms: int = 30_000
    max_body_bytes: int = 10 * 1024 * 1024
    max_retry_after_ms: int = 3_600_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise ValueError(f"{field.name} must be a whole number above 0, not {value!r}")


def fetch(url: str, *, limits: FetchLimits, user_agent: str) -> Page:
    """Ask for *url* once; redirects are reported, not followed, and their bodies not read.

    Trouble on the network, with the server or with the URL is an outcome (`Page.error`), never an
    exception.

    Raises:
        ValueError: When *user_agent* cannot be a header: it must be printable ASCII.
    """
    if not user_agent.strip() or not user_agent.isascii() or not user_agent.isprintable():
        raise ValueError(f"user_agent must be printable ASCII, not {user_agent!r}")
    fetched_at, started = time.time_ns() // 1_000_000, time.monotonic()
    target = canonical_url(url)
    if target is None:
        page = Page(url, error="invalid_url", error_text=f"not an http or https URL: {url!r}")
    else:
        page = replace(_request(target, limits=limits, user_agent=user_agent), url=url)
    elapsed_ms = int((time.monotonic() - started) * 1000)
    return replace(page, fetched_at=fetched_at, elapsed_ms=elapsed_ms)


def _request(url: str, *, limits: FetchLimits, user_agent: str) -> Page:
    deadline = Deadline(limits.deadline_ms)
    try:
        with deadline.applied(), _answer(url, limits=limits, user_agent=user_agent) as answer:
            return _read(answer, _without_body(url, answer, limits), deadline, limits=limits)
    except FAILURES as error:
        kind = "timeout" if deadline.is_over else kind_of(error)
        return Page(url, error=kind, error_text=describe(error))


@contextmanager
def _answer(url: str, *, limits: FetchLimits, user_agent: str) -> Iterator[requests.Response]:
    headers = {
        "User-Agent": user_agent,
        "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
        "Accept-Encoding": ACCEPTED_ENCODINGS,
    }
    request = requests.Request("GET", url, headers=headers).prepare()
    # requests would spell some characters differently; the normal form is what is asked for.
    request.url = url
    answer = _adapter().send(
        request,
        stream=True,
        timeout=limits.deadline_ms / 1000,
        verify=os.environ.get("REQUESTS_CA_BUNDLE") or True,
    )
    # Closing a response that was read to its end returns its connection to the pool; one that was
    # cut short loses it.
    with answer:
        yield answer


def _without_body(url: str, answer: requests.Response, limits: FetchLimits) -> Page:
    content_type, charset = media_type(answer.headers.get("Content-Type"))
    return Page(
        url,
        status=answer.status_code,
        content_type=content_type,
        charset=charset,
        redirect_to=redirect_target(url, answer.status_code, answer.raw.headers),
        retry_after_ms=retry_after_ms(answer.headers, maximum=limits.max_retry_after_ms),
    )


def _read(
    answer: requests.Response, page: Page, deadline: Deadline, *, limits: FetchLimits
) -> Page:
    """*page* with its body, as far as it came."""
    if page.redirect_to is not None:
        return page
    body = bytearray()
    chunks = answer.raw.stream(_CHUNK_BYTES, decode_content=False)
    try:
        for piece in decoded(chunks, content_encoding=answer.headers.get("Content-Encoding", "")):
            body += piece
            if len(body) > limits.max_body_bytes:
                text = f"the body has more than {limits.max_body_bytes} bytes"
                cut = bytes(body[: limits.max_body_bytes])
                return replace(page, body=cut, error="too_large", error_text=text)
            deadline.remaining()
    except FAILURES as error:
        kind = "timeout" if deadline.is_over else kind_of(error)
        return replace(page, body=bytes(body), error=kind, error_text=describe(error))
    return replace(page, body=bytes(body))


def _adapter() -> DeadlineAdapter:
    """The transport of this thread in this process: sockets must not be shared after a fork."""
    if getattr(_local, "pid", None) != os.getpid():
        _local.adapter, _local.pid = (
            DeadlineAdapter(pool_connections=10, pool_maxsize=1),
            os.getpid(),
        )
    adapter: DeadlineAdapter = _local.adapter
    return adapter
