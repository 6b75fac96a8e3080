"""What is kept of a page, and the sums over a crawl (pure)."""

import base64
import builtins
import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from crawl_actors.pages import Page
from crawl_actors.parsing import Parsed


@dataclass(frozen=True, slots=True)
class PageRecord:
    """One page as it is stored, under its URL.

    *bytes* is the length of the decoded body, *sha256* its digest in hexadecimal, None without a
    body; *links* is the number of links found. *version* tells newer from older: a record never
    replaces one with a higher version.
    """

    url: str
    crawl_id: str
    depth: int
    status: int | None = None
    content_type: str | None = None
    body: builtins.bytes = b""
    bytes: int = 0
    sha256: str | None = None
    title: str | None = None
    text: str | None = None
    redirect_to: str | None = None
    error: str | None = None
    error_text: str | None = None
    links: int = 0
    fetched_at: int = 0
    elapsed_ms: int = 0
    version: int = 0

    @classmethod
    def from_page(
        cls, page: Page, *, crawl_id: str, depth: int, parsed: Parsed | None = None
    ) -> Self:
        """The record of *page*; its version is the instant at which it was fetched."""
        return cls(
            url=page.url,
            crawl_id=crawl_id,
            depth=depth,
            status=page.status,
            content_type=page.content_type,
            body=page.body,
            bytes=len(page.body),
            sha256=hashlib.sha256(page.body).hexdigest() if page.body else None,
            title=parsed.title if parsed else None,
            text=parsed.text if parsed else None,
            redirect_to=page.redirect_to,
            error=page.error,
            error_text=page.error_text,
            links=len(parsed.links) if parsed else 0,
            fetched_at=page.fetched_at,
            elapsed_ms=page.elapsed_ms,
            version=page.fetched_at,
        )

    def to_message(self) -> dict[str, Any]:
        """This record in JSON's types, the body compressed."""
        message = asdict(self)
        message["body"] = base64.b64encode(zlib.compress(self.body)).decode("ascii")
        return message

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """The record that `to_message` was called on."""
        return cls(**{**message, "body": zlib.decompress(base64.b64decode(message["body"]))})


@dataclass(frozen=True, slots=True)
class Summary:
    """Sums over one crawl: pages per kind of error, the others per status, bytes of decoded bodies.

    *first_ms* and *last_ms* are the instants of the first and last fetch, None without pages.
    """

    pages: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    bytes: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    first_ms: int | None = None
    last_ms: int | None = None
