"""HTML to links, title and text (pure)."""

from dataclasses import dataclass

from crawl_actors.pages import Page


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a page says: *links* in normal form and document order, each once.

    *title* is None when there is none; *text* is what a reader sees, white space collapsed.
    """

    links: tuple[str, ...] = ()
    title: str | None = None
    text: str = ""


def parse(page: Page) -> Parsed:
    """Read *page*; one that is not HTML says nothing.

    Links are those of `a` and `area`, without those marked nofollow, and none at all when the
    page's robots meta tag says so. Broken markup never raises.
    """
    raise NotImplementedError
