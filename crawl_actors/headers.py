"""What the headers of an answer mean: media type, redirect, Retry-After (pure)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

from w3lib.encoding import http_content_type_encoding

from crawl_actors.urls import canonical_url

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MAX_DIGITS: Final = 15


class RawHeaders(Protocol):
    """Headers that may occur more than once, as urllib3 has them."""

    def getlist(self, key: str, /) -> list[str]:
        """All values of *key*, in order."""


def media_type(header: str | None) -> tuple[str | None, str | None]:
    """The media type of a Content-Type *header* in lower case, and its character set.

    The set is a name of one of Python's codecs, None when it is missing or unknown.
    """
    if header is None:
        return None, None
    name = header.partition(";")[0].partition(",")[0].strip().lower()
    # Older w3libs do not see a quoted name.
    return name or None, http_content_type_encoding(header.replace('"', ""))


def redirect_target(url: str, status: int, headers: RawHeaders) -> str | None:
    """Where an answer from *url* sends us, in normal form; None when it does not."""
    locations = headers.getlist("Location")
    if status not in _REDIRECTS or not locations:
        return None
    location = locations[0]
    try:
        # http.client reads headers as Latin-1; servers that do not escape send UTF-8.
        location = location.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return canonical_url(location, url)
    return canonical_url(location, url)


def retry_after_ms(headers: Mapping[str, str], *, maximum: int) -> int | None:
    """How long Retry-After asks us to wait, *maximum* at most; None without a sensible value.

    A date is compared with the server's own Date, so its clock need not be right.
    """
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdecimal():
        wait_ms = int(value) * 1000 if len(value) <= _MAX_DIGITS else maximum
        return min(wait_ms, maximum)
    until = _date(value)
    if until is None:
        return None
    now = _date(headers.get("Date", "")) or datetime.now(UTC)
    return min(max(0, int((until - now).total_seconds() * 1000)), maximum)


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError, TypeError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
