"""Whether the requests that the server saw are those of a right and polite crawl (pure)."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

from crawl_actors.demo.evidence import Check, Evidence
from crawl_actors.demo.page_checks import why_not
from crawl_actors.demo.server import Visit

# A request reserves its instant first and arrives a little later, by chance more or less so.
_LATENESS_S = 0.5
# Clocks of two processes, and the time between arrival and answer.
_EARLY_S = 0.02


def counts(evidence: Evidence) -> Check:
    """Every page is asked for once, or until it is healed or given up."""
    seen = Counter(visit.url for visit in evidence.visits)
    findings = (
        f"{url} was requested {seen[url]} times instead of {page.requests}."
        for url, page in evidence.truth.items()
        if seen[url] != page.requests
    )
    return Check("each URL is requested as often as needed", len(evidence.truth), tuple(findings))


def nothing_else(evidence: Evidence) -> Check:
    """What is forbidden, out of reach or misspelled is never asked for, nor another site."""
    allowed = {url for url, page in evidence.truth.items() if page.requests > 0}
    others = sorted({visit.url for visit in evidence.visits} - allowed - _rules(evidence))
    findings = [f"{url} was requested, but {why_not(evidence, url)}." for url in others]
    strays = sorted({visit.url for visit in evidence.strays})
    findings += [f"{url} was requested, but it is on another site." for url in strays]
    findings += [
        f"{visit.url} was requested with {visit.method}."
        for visit in evidence.visits
        if visit.method != "GET"
    ]
    rule = "nothing forbidden, off-site or misspelled is requested"
    return Check(rule, len(evidence.visits), tuple(findings))


def request_limit(evidence: Evidence) -> Check:
    """No more different pages are asked for than the page limit allows."""
    asked = {visit.url for visit in evidence.visits} - _rules(evidence)
    limit = evidence.limits.max_pages or len(evidence.truth)
    findings = () if len(asked) <= limit else (f"{len(asked)} different pages were requested.",)
    return Check(f"{limit} pages are requested at most", len(asked), findings)


def robots_first(evidence: Evidence) -> Check:
    """The rules of a site are read before its pages."""
    rules = _rules(evidence)
    first = next((visit.url for visit in evidence.visits if visit.url not in rules), None)
    asked = [visit.url for visit in evidence.visits]
    before = asked[: asked.index(first)] if first is not None else asked
    missing = sorted(rules - set(before))
    findings = (f"{url} was not read before the first page." for url in missing)
    return Check("robots.txt is read first, through its redirect", len(rules), tuple(findings))


def retry_after(evidence: Evidence) -> Check:
    """A page that says when to come again is left alone until then."""
    by_url: dict[str, list[Visit]] = {}
    for visit in evidence.visits:
        by_url.setdefault(visit.url, []).append(visit)
    pairs = [
        (before, after)
        for visits in by_url.values()
        for before, after in pairwise(visits)
        if before.retry_at is not None
    ]
    findings = (
        f"{after.url} was requested again {before.not_before_s - after.at_s:.2f} s too early."
        for before, after in pairs
        if after.at_s < before.not_before_s - _EARLY_S
    )
    return Check("Retry-After is respected", len(pairs), tuple(findings))


def site_pauses(evidence: Evidence) -> Check:
    """While a page's Retry-After runs, its whole site is left alone."""
    pauses = [visit for visit in evidence.visits if visit.retry_at is not None]
    findings = (
        f"{visit.url} was requested while the site had asked for a pause at {pause.url}."
        for pause in pauses
        for visit in evidence.visits
        if pause.at_s + _LATENESS_S < visit.at_s < pause.not_before_s - _EARLY_S
    )
    return Check("a site that asks for a pause gets it", len(pauses), tuple(findings))


def spacing(evidence: Evidence) -> Check:
    """Requests keep their distance, over any stretch of time and across all workers."""
    delay_s = evidence.limits.delay_s
    rules = _rules(evidence)
    visits = sorted(
        (visit for visit in evidence.visits if visit.url not in rules), key=lambda visit: visit.at_s
    )
    findings = []
    latest_s = -math.inf
    for index, visit in enumerate(visits):
        # When the first visit would have had to come for this one to come at an even pace.
        start_s = visit.at_s - index * delay_s
        if start_s < latest_s - _LATENESS_S:
            findings.append(f"{visit.url} was requested {latest_s - start_s:.2f} s too early.")
        latest_s = max(latest_s, start_s)
    rule = f"requests are {delay_s * 1000:.0f} ms apart, over all workers"
    return Check(rule, len(visits), tuple(findings))


def user_agent(evidence: Evidence) -> Check:
    """Every request says who is asking."""
    wanted = evidence.limits.user_agent
    findings = (
        f"{visit.url} was requested as {visit.user_agent!r} instead of {wanted!r}."
        for visit in evidence.visits
        if visit.user_agent != wanted
    )
    return Check("every request names the crawler", len(evidence.visits), tuple(findings))


def _rules(evidence: Evidence) -> set[str]:
    """Where the rules are; a crawler reads them as often as it has caches to fill."""
    return {f"{evidence.site.origin}{path}" for path in ("/robots.txt", "/about/robots.txt")}
