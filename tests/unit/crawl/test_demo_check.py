"""Every check of the demo passes on a perfect crawl and finds its kind of damage."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from crawl_actors.demo.check import check_crawl
from crawl_actors.demo.evidence import Evidence
from crawl_actors.demo.plan import SitePlan
from crawl_actors.demo.server import Visit
from crawl_actors.demo.site import Site
from crawl_actors.demo.truth import Expected, Limits, expected_pages

ORIGIN = "http://localhost:8123"
PAUSED = f"{ORIGIN}/healing/503-seconds.html"
LIMITS = Limits(max_depth=4)
SITE = Site(SitePlan(pages=20, max_depth=4), origin=ORIGIN, elsewhere="http://localhost:8124")
TRUTH = expected_pages(SITE, LIMITS)
NOTES = TRUTH[f"{ORIGIN}/files/notes.txt"]
NOTES_KEPT = ("text/plain", NOTES.sha256)


def row(page: Expected) -> dict[str, Any]:
    return {
        "url": page.url,
        "depth": page.depth,
        "status": page.status,
        "content_type": page.content_type,
        "title": page.title,
        "sha256": page.sha256,
        "redirect_to": page.redirect_to,
        "error": "robots" if page.is_refused else "timeout" if page.is_cut else None,
        "elapsed_ms": 3000 if page.is_cut else 3,
    }


def visit(url: str, at_s: float, number: int = 1) -> Visit:
    found = SITE.find(url)
    retry_after = found.nth_answer(number).retry_after if found else None
    return Visit(
        url,
        "GET",
        LIMITS.user_agent,
        number,
        at_s,
        at_s + (retry_after or 0),
        None if retry_after is None else at_s + retry_after,
    )


def perfect() -> Evidence:
    """A crawl without a fault: one request after the other, with a pause after each Retry-After."""
    visits = [visit(f"{ORIGIN}/robots.txt", 0.0), visit(f"{ORIGIN}/about/robots.txt", 0.0)]
    for page in TRUTH.values():
        for number in range(1, page.requests + 1):
            at_s = max(visits[-1].at_s + LIMITS.delay_s, visits[-1].not_before_s)
            visits.append(visit(page.url, at_s, number))
    rows = [row(page) for _, page in sorted(TRUTH.items())]
    return Evidence(SITE, LIMITS, TRUTH, rows, stored=sorted(TRUTH), visits=visits)


def changed(path: str, **values: object) -> Callable[[Evidence], Evidence]:
    """A crawl that stored one page otherwise."""
    return lambda evidence: replace(
        evidence,
        rows=[row | values if row["url"] == ORIGIN + path else row for row in evidence.rows],
    )


def asked(url: str) -> Callable[[Evidence], Evidence]:
    """A crawl that asked for one URL more, at the end."""
    return lambda evidence: replace(
        evidence, visits=[*evidence.visits, visit(url, evidence.visits[-1].at_s + 9)]
    )


def moved(url: str, *, number: int, by_s: float) -> Callable[[Evidence], Evidence]:
    """A crawl that asked for one URL earlier or later."""
    return lambda evidence: replace(
        evidence,
        visits=[
            replace(visit, at_s=visit.at_s + by_s)
            if (visit.url, visit.number) == (ORIGIN + url, number)
            else visit
            for visit in evidence.visits
        ],
    )


def hurried(evidence: Evidence) -> Evidence:
    """A crawl ten times as fast as allowed."""
    visits = [replace(visit, at_s=visit.at_s / 10) for visit in evidence.visits]
    return replace(evidence, visits=visits)


def test_perfect_crawl_is_right_in_every_respect() -> None:
    checks = check_crawl(perfect())

    assert [check for check in checks if not check.is_right] == []


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            lambda evidence: replace(evidence, rows=evidence.rows[1:], stored=evidence.stored[1:]),
            f"{ORIGIN}/ was not stored.",
        ),
        (
            lambda evidence: replace(evidence, rows=[evidence.rows[0], *evidence.rows]),
            f"{ORIGIN}/ was stored 2 times.",
        ),
        (
            lambda evidence: replace(evidence, stored=evidence.stored[1:]),
            f"{ORIGIN}/ is only in pages.jsonl.",
        ),
        (
            lambda evidence: replace(evidence, rows=evidence.rows[::-1]),
            "pages.jsonl is not sorted by URL.",
        ),
        (
            changed("/private/page.html", error=None),
            f"{ORIGIN}/private/page.html was stored with None instead of 'robots'.",
        ),
        (
            asked(f"{ORIGIN}/private/page.html"),
            f"{ORIGIN}/private/page.html was requested, but robots.txt forbids it.",
        ),
        (
            changed("/", url=f"{ORIGIN}/never/text.html"),
            f"{ORIGIN}/never/text.html was stored, but it stands in the text and is no link.",
        ),
        (
            changed("/", url=f"{ORIGIN}/cellar/5.html"),
            f"{ORIGIN}/cellar/5.html was stored, but it is more than 4 links from the seed.",
        ),
        (
            changed("/gone/404.html", status=200),
            f"{ORIGIN}/gone/404.html was stored with 200 instead of 404.",
        ),
        (
            changed("/cellar/0.html", depth=4),
            f"{ORIGIN}/cellar/0.html was stored with 4 instead of 2.",
        ),
        (
            changed("/loop/3", redirect_to=None),
            f"{ORIGIN}/loop/3 was stored with None instead of '{ORIGIN}/loop/1'.",
        ),
        (
            changed("/charsets/koi8.html", title="òÕÓÓËÁÑ"),
            f"{ORIGIN}/charsets/koi8.html was stored with 'òÕÓÓËÁÑ' instead of 'Русская страница'.",
        ),
        (
            changed("/files/notes.txt", sha256="0123"),
            f"{NOTES.url} was stored with ('text/plain', '0123') instead of {NOTES_KEPT}.",
        ),
        (
            changed("/files/bomb.html", error=None),
            f"{ORIGIN}/files/bomb.html cannot have been read, but was stored without an error.",
        ),
        (
            changed("/slow/endless.html", elapsed_ms=30_000),
            f"{ORIGIN}/slow/endless.html was cut after 30000 ms only.",
        ),
        (
            changed("/slow/served.html", error="timeout"),
            f"{ORIGIN}/slow/served.html is in order, but has the error 'timeout'.",
        ),
        (
            asked(f"{ORIGIN}/slow/served.html"),
            f"{ORIGIN}/slow/served.html was requested 2 times instead of 1.",
        ),
        (
            asked(f"{ORIGIN}/never/comment.html"),
            f"{ORIGIN}/never/comment.html was requested, but only a comment names it.",
        ),
        (
            asked(f"{ORIGIN}/%7Elibrary/"),
            f"{ORIGIN}/%7Elibrary/ was requested, but the site has no link to it in this spelling.",
        ),
        (
            asked("http://127.0.0.1:8123/"),
            "http://127.0.0.1:8123/ was requested, but it is on another site.",
        ),
        (
            lambda evidence: replace(evidence, strays=[visit("http://localhost:8124/", 1.0)]),
            "http://localhost:8124/ was requested, but it is on another site.",
        ),
        (
            lambda evidence: replace(evidence, visits=evidence.visits[1:]),
            f"{ORIGIN}/robots.txt was not read before the first page.",
        ),
        (
            moved("/healing/503-seconds.html", number=2, by_s=-0.5),
            f"{ORIGIN}/healing/503-seconds.html was requested again 0.50 s too early.",
        ),
        (
            moved("/healing/503-seconds.html", number=2, by_s=-1.0),
            f"{PAUSED} was requested while the site had asked for a pause at {PAUSED}.",
        ),
        (
            lambda evidence: replace(
                evidence,
                visits=[replace(evidence.visits[0], user_agent="x"), *evidence.visits[1:]],
            ),
            f"{ORIGIN}/robots.txt was requested as 'x' instead of 'crawl-actors-demo/1.0'.",
        ),
    ],
)
def test_damage_is_found_and_named(damage: Callable[[Evidence], Evidence], sentence: str) -> None:
    evidence = damage(perfect())

    checks = check_crawl(evidence)

    assert sentence in [finding for check in checks for finding in check.findings]


def test_crawl_that_is_too_fast_is_found() -> None:
    evidence = hurried(perfect())

    (check,) = [check for check in check_crawl(evidence) if "ms apart" in check.rule]

    assert check.findings


def test_check_that_looked_at_nothing_is_not_right() -> None:
    evidence = replace(perfect(), rows=[], visits=[])

    checks = check_crawl(evidence)

    assert not any(check.is_right for check in checks)


@pytest.mark.parametrize(("stored", "is_right"), [(9, False), (10, True), (11, False)])
def test_page_limit_is_met_exactly(stored: int, is_right: bool) -> None:
    whole = perfect()
    limits = replace(LIMITS, max_pages=10)
    evidence = replace(whole, limits=limits, rows=whole.rows[:stored], visits=whole.visits[:12])

    check = check_crawl(evidence)[0]

    assert check.is_right is is_right
