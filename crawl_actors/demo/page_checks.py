"""Whether the stored pages are those of a right crawl (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from crawl_actors.demo.evidence import Check, Evidence, Row
from crawl_actors.demo.truth import Expected

# A cut page has to be given up about when its deadline passes.
_CUT_SLACK_MS = 1500


def every_page(evidence: Evidence) -> Check:
    """Nothing is missing."""
    stored = {row["url"] for row in evidence.rows}
    missing = sorted(evidence.truth.keys() - stored)
    findings = (f"{url} was not stored." for url in missing)
    return Check("every page is stored", len(evidence.truth), tuple(findings))


def no_other_page(evidence: Evidence) -> Check:
    """Nothing is there that should not be, and nothing twice."""
    counts = Counter(row["url"] for row in evidence.rows)
    findings = [
        f"{url} was stored, but {why_not(evidence, url)}."
        for url in sorted(counts.keys() - evidence.truth.keys())
    ]
    findings += [
        f"{url} was stored {count} times." for url, count in sorted(counts.items()) if count > 1
    ]
    return Check("no other page is stored, none twice", len(evidence.rows), tuple(findings))


def page_limit(evidence: Evidence) -> Check:
    """Of the pages within reach, as many are stored as the limit allows, and no more."""
    limit = min(evidence.limits.max_pages or len(evidence.truth), len(evidence.truth))
    count = len(evidence.rows)
    findings = () if count == limit else (f"{count} pages were stored instead of {limit}.",)
    return Check(f"{limit} pages are stored, as limited", limit, findings)


def statuses(evidence: Evidence) -> Check:
    """Every page that answered has the status of its last answer."""
    return _compare(
        evidence,
        "the status is the last answer's",
        expected=lambda page: page.status,
        stored=lambda row: row["status"],
        concerns=lambda page: not page.is_cut,
    )


def refusals(evidence: Evidence) -> Check:
    """What robots.txt forbids is stored with that reason alone."""
    return _compare(
        evidence,
        "what robots.txt forbids is stored as such",
        expected=lambda page: "robots",
        stored=lambda row: row["error"],
        concerns=lambda page: page.is_refused,
    )


def depths(evidence: Evidence) -> Check:
    """The depth of a page is the fewest links to it, whoever found it first."""
    return _compare(
        evidence,
        "the depth is the shortest way's",
        expected=lambda page: page.depth,
        stored=lambda row: row["depth"],
    )


def redirects(evidence: Evidence) -> Check:
    """A redirect is stored with the URL it leads to."""
    return _compare(
        evidence,
        "a redirect leads where the server said",
        expected=lambda page: page.redirect_to,
        stored=lambda row: row["redirect_to"],
        concerns=lambda page: page.status in range(300, 400),
    )


def titles(evidence: Evidence) -> Check:
    """Titles are read in the character set of their page."""
    return _compare(
        evidence,
        "the title is read in its character set",
        expected=lambda page: page.title,
        stored=lambda row: row["title"],
        concerns=lambda page: page.title is not None,
    )


def contents(evidence: Evidence) -> Check:
    """The contents are what the server sent, byte for byte, and of the kind it said."""
    return _compare(
        evidence,
        "the contents are what was sent",
        expected=lambda page: (page.content_type, page.sha256),
        stored=lambda row: (row["content_type"], row["sha256"]),
        concerns=lambda page: page.sha256 is not None,
    )


def cut_pages(evidence: Evidence) -> Check:
    """What is too slow or too large has an error, in time; nothing else has."""
    findings = []
    for page, row in _pairs(evidence):
        if page.is_cut and row["error"] is None:
            findings.append(f"{page.url} cannot have been read, but was stored without an error.")
        elif page.is_cut and row["elapsed_ms"] > evidence.limits.deadline_s * 1000 + _CUT_SLACK_MS:
            findings.append(f"{page.url} was cut after {row['elapsed_ms']} ms only.")
        elif row["error"] is not None and not page.is_cut and page.status in range(500):
            findings.append(f"{page.url} is in order, but has the error {row['error']!r}.")
    looked_at = sum(page.is_cut for page, _ in _pairs(evidence))
    return Check("what is endless or too large is cut in time", looked_at, tuple(findings))


def export(evidence: Evidence) -> Check:
    """The exported file is sorted and has what the storage has."""
    urls = [row["url"] for row in evidence.rows]
    findings = []
    if urls != sorted(urls):
        findings.append("pages.jsonl is not sorted by URL.")
    for url in sorted(set(evidence.stored).symmetric_difference(urls)):
        place = "pages.sqlite" if url in evidence.stored else "pages.jsonl"
        findings.append(f"{url} is only in {place}.")
    return Check("pages.jsonl has what pages.sqlite has", len(urls), tuple(findings))


def why_not(evidence: Evidence, url: str) -> str:
    """The reason why a right crawl knows nothing of *url*, as a clause."""
    if reason := evidence.site.forbidden.get(url):
        return reason
    if not url.startswith(f"{evidence.site.origin}/"):
        return "it is on another site"
    if evidence.site.find(url):
        return f"it is more than {evidence.limits.max_depth} links from the seed"
    return "the site has no link to it in this spelling"


def _pairs(evidence: Evidence) -> Iterator[tuple[Expected, Row]]:
    """Each stored page that was expected, with what was expected."""
    for row in evidence.rows:
        if page := evidence.truth.get(row["url"]):
            yield page, row


def _compare(
    evidence: Evidence,
    rule: str,
    *,
    expected: Callable[[Expected], object],
    stored: Callable[[Row], object],
    concerns: Callable[[Expected], bool] = lambda page: True,
) -> Check:
    pairs = [(page, row) for page, row in _pairs(evidence) if concerns(page)]
    findings = (
        f"{page.url} was stored with {stored(row)!r} instead of {expected(page)!r}."
        for page, row in pairs
        if stored(row) != expected(page)
    )
    return Check(rule, len(pairs), tuple(findings))
