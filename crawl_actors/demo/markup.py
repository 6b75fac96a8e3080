"""HTML of the demo's pages (pure): links in many spellings, and words between them."""

from __future__ import annotations

import html
import random
from collections.abc import Sequence

from crawl_actors.demo.spellings import spell

_WORDS = (
    *("anchor", "basalt", "cinder", "delta", "ember", "fjord", "glacier", "harbour", "islet"),
    *("juniper", "kelp", "lagoon", "meadow", "nettle", "orchard", "pebble", "quarry", "ravine"),
    *("sedge", "tundra", "upland", "valley", "willow", "yarrow", "zephyr"),
)

# An anchor is written in one of these ways; all mean the same to a browser.
_ANCHORS = (
    '<a href="{href}">{text}</a>',
    "<a class=more href='{href}'>{text}</a>",
    '<A HREF="{href}" title="to {text}">{text}</A>',
    '<a rel="noopener" href="{href}"><b>{text}</b></a>',
)


def page_html(
    url: str,
    title: str,
    *,
    links: Sequence[str] = (),
    rng: random.Random,
    base: str | None = None,
    head: str = "",
    extra: str = "",
) -> str:
    """A whole page that links to *links*, each in a spelling drawn from *rng*.

    Args:
        base: The base URL its relative links are written against, when it is not *url*.
        head: HTML for the head, behind the title.
        extra: HTML for the end of the body.
    """
    anchors = "\n".join(anchor(link, base=base or url, rng=rng) for link in links)
    return (
        f"<!doctype html>\n<html><head><title>{html.escape(title)}</title>\n{head}</head>\n"
        f"<body><h1>{html.escape(title)}</h1>\n{paragraph(rng)}\n{anchors}\n{extra}</body></html>\n"
    )


def plain_page_html(title: str, *, links: Sequence[str], head: str = "") -> str:
    """A short page with every link spelled in full: for pages that are not UTF-8."""
    anchors = "\n".join(f'<a href="{html.escape(link)}">on</a>' for link in links)
    return (
        f"<!doctype html>\n<html><head>{head}<title>{html.escape(title)}</title></head>\n"
        f"<body><h1>{html.escape(title)}</h1>\n{anchors}\n</body></html>\n"
    )


def anchor(url: str, *, base: str, rng: random.Random) -> str:
    """A link to *url* from a page whose base URL is *base*, at times written twice."""
    copies = 2 if rng.random() < 0.2 else 1
    return " ".join(
        rng.choice(_ANCHORS).format(
            href=html.escape(spell(url, base=base, rng=rng)), text=rng.choice(_WORDS)
        )
        for _ in range(copies)
    )


def paragraph(rng: random.Random) -> str:
    """Some words for readers and for the size of the page."""
    return f"<p>{' '.join(rng.choice(_WORDS) for _ in range(rng.randrange(20, 120)))}.</p>"
