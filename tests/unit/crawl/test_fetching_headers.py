from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_actors.headers import media_type, retry_after_ms

DATE = "Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0),
        ("120", 120_000),
        (" 7 ", 7_000),
        ("9" * 5_000, 3_600_000),
        ("-5", None),
        ("1.5", None),
        ("²", None),
        ("soon", None),
        ("", None),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
    ],
)
def test_seconds_are_read_and_capped(value: str, expected: int | None) -> None:
    assert retry_after_ms({"Retry-After": value}, maximum=3_600_000) == expected


def test_no_header_is_no_wish() -> None:
    assert retry_after_ms({}, maximum=1) is None


@pytest.mark.parametrize(("after_s", "expected"), [(90, 90_000), (-90, 0), (99_999, 3_600_000)])
def test_a_date_is_compared_with_the_servers_own_clock(after_s: int, expected: int) -> None:
    until = datetime(2015, 10, 21, 7, 28, tzinfo=UTC) + timedelta(seconds=after_s)
    headers = {"Retry-After": format_datetime(until, usegmt=True), "Date": DATE}

    assert retry_after_ms(headers, maximum=3_600_000) == expected


def test_a_date_is_compared_with_our_clock_when_the_server_tells_none() -> None:
    until = datetime.now(UTC) + timedelta(seconds=60)
    headers = {"Retry-After": format_datetime(until, usegmt=True)}

    wait_ms = retry_after_ms(headers, maximum=3_600_000)

    assert wait_ms is not None
    assert 50_000 < wait_ms <= 60_000


@given(st.text(), st.text())
def test_no_value_raises(value: str, date: str) -> None:
    wait_ms = retry_after_ms({"Retry-After": value, "Date": date}, maximum=1_000)

    assert wait_ms is None or 0 <= wait_ms <= 1_000


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, (None, None)),
        ("", (None, None)),
        ("text/html", ("text/html", None)),
        ("Text/HTML;Charset=utf-8", ("text/html", "utf-8")),
        ('text/html; charset="utf-8"', ("text/html", "utf-8")),
        ("text/html; charset=klingon", ("text/html", None)),
        ("text/html, text/plain", ("text/html", None)),
        (";charset=utf-8", (None, "utf-8")),
    ],
)
def test_media_types_and_character_sets_are_told_apart(
    header: str | None, expected: tuple[str | None, str | None]
) -> None:
    assert media_type(header) == expected


@given(st.text())
def test_no_content_type_raises(header: str) -> None:
    media_type(header)
