"""HTML to links, title and text (pure).

The markup is read as a stream of tags, not as a tree: no nesting is too deep, and broken pages give
what can be read of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lxml import etree
from w3lib.encoding import html_to_unicode

from crawl_actors.pages import Page
from crawl_actors.urls import canonical_url

MAX_TITLE_LENGTH: Final = 1_000
MAX_TEXT_LENGTH: Final = 100_000
"""How many characters of a page's text are kept."""

_LINK_TAGS: Final = frozenset({"a", "area"})
_INVISIBLE_TAGS: Final = frozenset({"script", "style", "template", "head", "title", "iframe"})
_INLINE_TAGS: Final = frozenset(
    """
    a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q s samp
    small span strike strong sub sup time tt u var wbr
    """.split()  # noqa: SIM905 - a list of one tag a line hides more than it shows
)

# Codecs of Python that a page may well name, but that no browser knows; "" is one that failed.
_NO_CHARACTER_SETS: Final = frozenset(
    {"", "idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7"}
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a page says: *links* in normal form and document order, each once.

    *title* is None when there is none; *text* is what a reader sees, white space collapsed, its
    first `MAX_TEXT_LENGTH` characters.
    """

    links: tuple[str, ...] = ()
    title: str | None = None
    text: str = ""


def parse(page: Page) -> Parsed:
    """Read *page*; one that is not HTML says nothing.

    Links are those of `a` and `area`, relative to the first `base`, without those marked nofollow,
    and none at all when the page's robots meta tag says so. Broken markup never raises.
    """
    if not page.is_html or not page.body:
        return Parsed()
    reader = _Reader()
    # A NUL would end the document for libxml2; the HTML standard reads it as U+FFFD.
    markup = _decoded(page).replace("\0", "\ufffd").encode("utf-8", "replace")
    # The stubs ask for methods that lxml calls only where they exist.
    parser = etree.HTMLParser(  # type: ignore[call-overload]
        target=reader, encoding="utf-8", huge_tree=True
    )
    try:
        parser.feed(markup)
        parser.close()
    except etree.XMLSyntaxError:
        # Nothing but white space or comments: libxml2 asks for one element at least.
        return reader.parsed(page.url)
    return reader.parsed(page.url)


class _Reader:
    """Collects what the tags say; lxml calls its methods in document order."""

    def __init__(self) -> None:
        self._base: str | None = None
        self._hrefs: dict[str, None] = {}
        self._follow = True
        self._title: list[str] = []
        self._titles = 0
        self._in_title = False
        self._text = _Text()
        self._invisible: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """A tag opens."""
        if tag in _LINK_TAGS:
            self._link(attributes)
        elif tag == "base" and self._base is None:
            self._base = attributes.get("href")
        elif tag == "meta":
            self._follow = self._follow and not _forbids_following(attributes)
        elif tag == "title" and not self._invisible_beyond_head():
            self._titles += 1
            self._in_title = self._titles == 1
        if tag in _INVISIBLE_TAGS:
            self._invisible.append(tag)
        elif tag == "body":
            self._invisible.clear()
        elif tag not in _INLINE_TAGS:
            self._text.add(" ")

    def end(self, tag: str) -> None:
        """A tag closes."""
        if tag == "title":
            self._in_title = False
        if tag in self._invisible:
            while self._invisible.pop() != tag:
                continue
        elif tag not in _INLINE_TAGS:
            self._text.add(" ")

    def data(self, text: str) -> None:
        """Text between tags."""
        if self._in_title:
            self._title.append(text)
        elif not self._invisible:
            self._text.add(text)

    def comment(self, text: str) -> None:
        """A comment says nothing."""

    def close(self) -> None:
        """The document ends."""

    def parsed(self, url: str) -> Parsed:
        """The result for the page at *url*."""
        base = url
        if self._base is not None:
            base = canonical_url(self._base, url) or url
        found = (canonical_url(href, base) for href in self._hrefs) if self._follow else ()
        links = tuple(dict.fromkeys(link for link in found if link is not None))
        title = " ".join("".join(self._title).split())[:MAX_TITLE_LENGTH]
        return Parsed(links=links, title=title or None, text=self._text.collapsed())

    def _link(self, attributes: Mapping[str, str]) -> None:
        href = attributes.get("href")
        if href is not None and "nofollow" not in _tokens(attributes.get("rel", "")):
            self._hrefs[href] = None

    def _invisible_beyond_head(self) -> bool:
        return any(tag != "head" for tag in self._invisible)


class _Text:
    """Text that grows piece by piece, up to a limit."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0

    def add(self, piece: str) -> None:
        """Append *piece*; what is surely beyond the limit is not kept."""
        if self._length > MAX_TEXT_LENGTH:
            return
        self._pieces.append(piece)
        self._length += len(" ".join(piece.split()))

    def collapsed(self) -> str:
        """All of it, each run of white space one space."""
        return " ".join("".join(self._pieces).split())[:MAX_TEXT_LENGTH].rstrip()


def _decoded(page: Page) -> str:
    """The body as text, in the character set a browser would choose.

    A byte order mark decides, then the header, then a meta tag, then whether it is valid UTF-8.
    """
    header = f"{page.content_type or 'text/html'}; charset={page.charset or ''}"
    try:
        charset, text = html_to_unicode(header, page.body, auto_detect_fun=_guessed)
    except (LookupError, ValueError):
        charset, text = "", ""
    # Markup in UTF-16 is full of NULs; a page that says so without having any is mistaken.
    is_mistaken = charset.startswith(("utf-16", "utf-32")) and b"\0" not in page.body
    if is_mistaken or charset in _NO_CHARACTER_SETS:
        return page.body.decode(_guessed(page.body), "replace")
    return text


def _guessed(body: bytes) -> str:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _forbids_following(attributes: Mapping[str, str]) -> bool:
    if attributes.get("name", "").strip().lower() != "robots":
        return False
    return not _tokens(attributes.get("content", "")).isdisjoint({"nofollow", "none"})


def _tokens(value: str) -> set[str]:
    return set(value.lower().replace(",", " ").split())
