"""What is kept of a page, and the sums over a crawl (pure)."""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Self

from crawl_actors.pages import Page
from crawl_actors.parsing import Parsed


@dataclass(frozen=True, slots=True)
class PageRecord:
    """One page as it is stored, under its URL.

    *bytes* is the length of the decoded body and *links* the number of links found. *version* tells
    newer from older: a record never replaces one with a higher version.
    """

    url: str
    crawl_id: str
    depth: int
    status: int | None = None
    content_type: str | None = None
    bytes: int = 0
    title: str | None = None
    text: str | None = None
    body: "bytes" = b""
    sha256: str | None = None
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
        raise NotImplementedError

    def to_message(self) -> dict[str, Any]:
        """This record in JSON's types, the body compressed."""
        raise NotImplementedError

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """The record that `to_message` was called on."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Summary:
    """Sums over one crawl: pages per status and per kind of error, bytes of decoded bodies.

    *first_ms* and *last_ms* are the instants of the first and last fetch, None without pages.
    """

    pages: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    bytes: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    first_ms: int | None = None
    last_ms: int | None = None
