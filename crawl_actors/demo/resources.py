"""What the demo's site is made of: resources, and the answers they give.

Pure descriptions. Sending them is `server`'s work, judging a crawl by them is `truth`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto


class Delivery(StrEnum):
    """How the server sends an answer."""

    WHOLE = auto()
    SLOW = auto()  # a drop of the body now and then, for `Answer.seconds`
    ENDLESS = auto()  # the same, without end
    STALLED = auto()  # the head of the answer, then nothing more
    HUNG_UP = auto()  # the connection is closed before a byte is sent


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer.

    Args:
        body: As a client sees it; *gzip* says whether it travels compressed.
        seconds: How long a SLOW body takes.
        retry_after: Seconds for a Retry-After header; *retry_after_is_date* writes it as a date.
    """

    status: int = 200
    content_type: str | None = "text/html; charset=utf-8"
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    delivery: Delivery = Delivery.WHOLE
    seconds: float = 0.0
    gzip: bool = False
    retry_after: int | None = None
    retry_after_is_date: bool = False


@dataclass(frozen=True, slots=True)
class Resource:
    """What is found at one URL.

    Args:
        url: The one canonical spelling.
        answer: What is answered once *failures* are used up.
        failures: What the first requests get instead, in order.
        title: Of an HTML page, as a reader sees it; None when it has none.
        links: Canonical URLs that a crawler is to take from the page; other sites included.
        redirect_to: Where a redirect points to, canonical.
    """

    url: str
    answer: Answer
    failures: tuple[Answer, ...] = ()
    title: str | None = None
    links: tuple[str, ...] = ()
    redirect_to: str | None = None

    def nth_answer(self, number: int) -> Answer:
        """The answer to the request with this *number*, counted from 1."""
        return self.failures[number - 1] if number <= len(self.failures) else self.answer


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the site that shows one kind of difficulty.

    Args:
        entrances: URLs that ordinary pages link to, so that the section is found.
        front: URLs that the seed itself links to.
        forbidden: URLs that no crawler may ask for, each with the reason as a clause.
        closed: Those URLs that a crawler finds links to, and robots.txt forbids.
    """

    resources: Sequence[Resource]
    entrances: Sequence[str] = ()
    forbidden: dict[str, str] = field(default_factory=dict)
    front: Sequence[str] = ()
    closed: Sequence[str] = ()
