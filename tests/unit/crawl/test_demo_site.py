"""The demo's truth against a walk that knows nothing of it: requests and an HTML parser."""

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from html.parser import HTMLParser
from time import monotonic
from urllib.parse import urlsplit

import ada_url
import pytest
import requests
from protego import Protego
from w3lib.encoding import html_to_unicode

from crawl_actors.demo.plan import SitePlan
from crawl_actors.demo.server import DemoServer
from crawl_actors.demo.site import Site
from crawl_actors.demo.truth import Expected, Limits, expected_pages

PLAN = SitePlan(pages=60, seed=5, max_depth=6, slow_s=0.2)
HTML_TYPES = ("text/html", "application/xhtml+xml")
LIMITS = Limits(max_depth=6, max_retries=2, deadline_s=0.8)


def plain(url: str, base: str) -> str | None:
    """The URL as a browser reads it, without what servers never see or must not tell apart."""
    try:
        parsed = ada_url.URL(url, base)
    except ValueError:
        return None
    if parsed.protocol != "http:":
        return None
    rest = re.sub(
        "%[0-9A-Fa-f]{2}",
        lambda escape: (
            character
            if re.fullmatch("[A-Za-z0-9._~-]", character := chr(int(escape[0][1:], 16)))
            else escape[0].upper()
        ),
        parsed.pathname + parsed.search,
    )
    return f"http://{parsed.host}{rest}"


class Reader(HTMLParser):
    """Links and title of one page."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.base: str | None = None
        self.hrefs: list[str] = []
        self.is_mute = False
        self.title: str | None = None
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in reversed(attrs)}
        if tag in ("a", "area") and "href" in values:
            if "nofollow" not in values.get("rel", "").lower().split():
                self.hrefs.append(values["href"])
        elif tag == "base" and "href" in values and self.base is None:
            self.base = plain(values["href"], self.url)
        elif tag == "meta" and values.get("name", "").lower() == "robots":
            words = {word.strip() for word in values["content"].lower().split(",")}
            self.is_mute = self.is_mute or bool(words & {"nofollow", "none"})
        self._in_title = tag == "title" and self.title is None

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = (self.title or "") + data

    def links(self) -> Iterator[str]:
        """What the page offers to a crawler, each URL in its plain form."""
        for href in [] if self.is_mute else self.hrefs:
            if url := plain(href, self.base or self.url):
                yield url


@dataclass
class Found:
    """What came of asking for one URL."""

    status: int | None = None
    is_cut: bool = False
    is_refused: bool = False
    requests: int = 0
    content_type: str | None = None
    title: str | None = None
    body: bytes = b""
    redirect_to: str | None = None
    links: list[str] = field(default_factory=list)


def ask_once(url: str, found: Found, limits: Limits) -> bool:
    """One request; False when it may be worth another one."""
    started = monotonic()
    found.requests += 1
    found.is_cut, found.body = False, b""
    try:
        with requests.get(
            url, timeout=limits.deadline_s, allow_redirects=False, stream=True
        ) as response:
            found.status = response.status_code
            found.content_type = response.headers.get("Content-Type", "").partition(";")[0] or None
            for piece in response.iter_content(1 if "/slow/" in url else 65536):
                found.body += piece
                if len(found.body) > limits.max_body_bytes:
                    found.is_cut = True
                    return True
                if monotonic() - started > limits.deadline_s:
                    found.is_cut = True
                    return False
    except requests.RequestException:
        found.is_cut = True
        return False
    if location := response.headers.get("Location"):
        found.redirect_to = plain(location, url)
    elif response.ok and (found.content_type or "text/html") in HTML_TYPES:
        reader = Reader(url)
        reader.feed(html_to_unicode(response.headers.get("Content-Type"), found.body)[1])
        found.title, found.links = reader.title, list(reader.links())
    return response.status_code != 429 and response.status_code < 500


def ask(url: str, *, limits: Limits, rules: Protego) -> Found:
    """Requests for *url* until one is final."""
    found = Found()
    if not rules.can_fetch(url, "demo-walk"):
        found.is_refused = True
        return found
    while not ask_once(url, found, limits) and found.requests <= limits.max_retries:
        pass
    return found


def walk(seed: str, limits: Limits) -> dict[str, tuple[int, Found]]:
    """Every page within the limits, level by level, by URL with its depth."""
    rules = Protego.parse(requests.get(ada_url.join_url(seed, "/robots.txt"), timeout=5).text)
    walked: dict[str, tuple[int, Found]] = {}
    level = {seed}
    with ThreadPoolExecutor(8) as pool:
        for depth in range(limits.max_depth + 1):
            following: set[str] = set()
            while level := {
                url
                for url in level
                if urlsplit(url).netloc == urlsplit(seed).netloc and url not in walked
            }:
                answers = dict(
                    zip(
                        level,
                        pool.map(partial(ask, limits=limits, rules=rules), level),
                        strict=True,
                    )
                )
                walked |= {url: (depth, found) for url, found in answers.items()}
                following.update(link for found in answers.values() for link in found.links)
                level = {found.redirect_to for found in answers.values() if found.redirect_to}
            level = following
    return walked


def as_expected(url: str, depth: int, found: Found) -> Expected:
    """What was found, in the words of the truth."""
    is_kept = found.body and not found.is_cut and found.status not in range(300, 400)
    return Expected(
        url,
        depth,
        found.requests,
        found.status,
        is_cut=found.is_cut,
        is_refused=found.is_refused,
        content_type=found.content_type,
        title=None if found.is_cut else found.title,
        redirect_to=found.redirect_to,
        sha256=sha256(found.body).hexdigest() if is_kept else None,
    )


@pytest.fixture
def servers() -> Iterator[tuple[DemoServer, DemoServer]]:
    with DemoServer() as server, DemoServer() as elsewhere:
        yield server, elsewhere


def test_truth_is_what_a_plain_breadth_first_walk_finds(
    servers: tuple[DemoServer, DemoServer],
) -> None:
    server, elsewhere = servers
    site = Site(PLAN, origin=server.origin, elsewhere=elsewhere.origin)
    server.publish(site.find)

    walked = walk(site.seed_url, LIMITS)

    truth = expected_pages(site, LIMITS)
    assert {url: as_expected(url, *found) for url, found in walked.items()} == truth
    asked = Counter(visit.url for visit in server.visits)
    rules = [f"{site.origin}/robots.txt", f"{site.origin}/about/robots.txt"]
    allowed = {url: page.requests for url, page in truth.items() if page.requests}
    assert asked == allowed | dict.fromkeys(rules, 1)
    assert not asked.keys() & site.forbidden.keys()
    assert elsewhere.visits == ()


def pages_of(plan: SitePlan) -> dict[str, tuple[bytes, int]]:
    site = Site(plan, origin="http://localhost:8123", elsewhere="http://localhost:8124")
    truth = expected_pages(site, Limits())
    return {
        url: (resource.answer.body, page.depth)
        for url, page in truth.items()
        if (resource := site.find(url))
    }


def test_same_plan_makes_the_same_site() -> None:
    assert pages_of(SitePlan(seed=3)) == pages_of(SitePlan(seed=3))


def test_another_seed_makes_another_site() -> None:
    assert pages_of(SitePlan(seed=3)) != pages_of(SitePlan(seed=4))


def test_depth_limit_is_met_and_leaves_something_out() -> None:
    site = Site(SitePlan(), origin="http://localhost:8123", elsewhere="http://localhost:8124")

    truth = expected_pages(site, Limits())
    deeper = expected_pages(site, Limits(max_depth=9))

    assert max(page.depth for page in truth.values()) == 8
    assert max(page.depth for page in deeper.values()) == 9
    assert truth.items() < deeper.items()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pages": 9}, "pages is 9: a site has 10 pages at least"),
        ({"max_depth": 0}, "max_depth is 0: it must be 1 at least"),
        ({"slow_s": 0}, "slow_s is 0: it must be above 0"),
    ],
)
def test_plan_that_makes_no_site_is_refused(options: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        SitePlan(**options)
