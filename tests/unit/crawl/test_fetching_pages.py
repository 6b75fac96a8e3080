import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_actors.pages import Page


@given(st.binary(), st.one_of(st.none(), st.text()), st.one_of(st.none(), st.integers(100, 599)))
def test_a_page_survives_its_way_through_a_message(
    body: bytes, text: str | None, status: int | None
) -> None:
    page = Page("http://example.com/", status=status, body=body, error_text=text, elapsed_ms=3)

    assert Page.from_message(json.loads(json.dumps(page.to_message()))) == page


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_an_answer_that_may_heal_is_retryable(status: int) -> None:
    assert Page("http://example.com/", status=status).is_retryable


@pytest.mark.parametrize("status", [200, 204, 301, 304, 400, 401, 403, 404, 410, 501, 505])
def test_an_answer_that_is_final_is_not_retryable(status: int) -> None:
    assert not Page("http://example.com/", status=status).is_retryable


@pytest.mark.parametrize("error", ["timeout", "dns", "connect", "disconnected"])
def test_trouble_on_the_way_is_retryable(error: str) -> None:
    assert Page("http://example.com/", error=error).is_retryable
    assert Page("http://example.com/", status=200, error=error).is_retryable


@pytest.mark.parametrize(
    "error", ["unknown_host", "tls", "protocol", "encoding", "too_large", "invalid_url"]
)
def test_trouble_that_stays_is_not_retryable(error: str) -> None:
    assert not Page("http://example.com/", error=error).is_retryable


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("text/html", b"", True),
        ("application/xhtml+xml", b"", True),
        ("text/plain", b"<html>", False),
        ("application/pdf", b"<html>", False),
        (None, b"\n  <!DOCTYPE HTML><p>", True),
        (None, b"<HtMl>", True),
        (None, b"%PDF-1.4", False),
        (None, b"", False),
    ],
)
def test_html_is_told_by_its_type_or_by_its_beginning(
    content_type: str | None, body: bytes, expected: bool
) -> None:
    assert Page("http://example.com/", content_type=content_type, body=body).is_html is expected
