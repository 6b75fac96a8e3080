"""One HTTP request, within limits, to a `Page`."""

from dataclasses import dataclass

from crawl_actors.pages import Page

__all__ = ["FetchLimits", "Page", "fetch"]


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What one request may cost: *deadline_ms* covers everything from the name to the last byte.

    *max_body_bytes* counts the decoded body; *max_retry_after_ms* caps what a server may ask for.
    """

    deadline_ms: int = 30_000
    max_body_bytes: int = 10 * 1024 * 1024
    max_retry_after_ms: int = 3_600_000


def fetch(url: str, *, limits: FetchLimits, user_agent: str) -> Page:
    """Ask for *url* once; redirects are reported, not followed.

    Trouble on the network, with the server or with the URL is an outcome (`Page.error`), never an
    exception.
    """
    raise NotImplementedError
