"""What one HTTP request brought back, and the form in which it travels in a message (pure).

Making the request is the business of `fetching`.
"""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_HTML_BEGINNINGS: Final = (b"<!doctype html", b"<html", b"<head", b"<body", b"<title", b"<!--")
RETRYABLE_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
RETRYABLE_ERRORS: Final = frozenset({"timeout", "dns", "connect", "disconnected"})


@dataclass(frozen=True, slots=True)
class Page:
    """The outcome of one request: an answer, or what went wrong.

    *status* is None when no answer arrived. *error* is None when all is well, else one of:

    | error          | meaning                                                      | retry |
    |----------------|--------------------------------------------------------------|-------|
    | `timeout`      | the total deadline passed, wherever the request was          | yes   |
    | `dns`          | the name servers gave no answer                              | yes   |
    | `unknown_host` | the name does not exist                                      | no    |
    | `connect`      | the server was unreachable or refused                        | yes   |
    | `disconnected` | the server hung up before the answer was complete            | yes   |
    | `tls`          | no secure connection: certificate, protocol version          | no    |
    | `protocol`     | the answer was not HTTP                                      | no    |
    | `encoding`     | the body's Content-Encoding is unknown or broken             | no    |
    | `too_large`    | the body is longer than allowed; *body* holds its beginning  | no    |
    | `invalid_url`  | the URL cannot be requested                                  | no    |

    *content_type* is the media type alone, in lower case; *charset* what the server said beside it.
    *redirect_to* is absolute and in normal form, and only set for a redirect to http or https.
    Times are milliseconds; *fetched_at* counts from 1970.
    """

    url: str
    status: int | None = None
    content_type: str | None = None
    charset: str | None = None
    body: bytes = b""
    redirect_to: str | None = None
    retry_after_ms: int | None = None
    elapsed_ms: int = 0
    fetched_at: int = 0
    error: str | None = None
    error_text: str | None = None

    @property
    def is_retryable(self) -> bool:
        """True when the same request may well succeed later."""
        return self.error in RETRYABLE_ERRORS or self.status in RETRYABLE_STATUSES

    @property
    def is_html(self) -> bool:
        """True when the body is HTML, by its media type or, lacking one, by how it begins."""
        if self.content_type is not None:
            return self.content_type in HTML_TYPES
        return self.body[:1024].lstrip().lower().startswith(_HTML_BEGINNINGS)

    def to_message(self) -> dict[str, Any]:
        """This page in JSON's types, the body compressed."""
        fields = asdict(self)
        fields["body"] = base64.b64encode(zlib.compress(self.body)).decode("ascii")
        return fields

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """The page that `to_message` was called on."""
        return cls(**{**message, "body": zlib.decompress(base64.b64decode(message["body"]))})
