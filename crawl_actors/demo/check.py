"""Compares a finished crawl with the truth."""

from __future__ import annotations

from collections.abc import Callable

from crawl_actors.demo import page_checks, request_checks
from crawl_actors.demo.evidence import Check, Evidence

_Checks = tuple[Callable[[Evidence], Check], ...]

_WHOLE: _Checks = (
    page_checks.every_page,
    page_checks.no_other_page,
    page_checks.statuses,
    page_checks.refusals,
    page_checks.depths,
    page_checks.redirects,
    page_checks.titles,
    page_checks.contents,
    page_checks.cut_pages,
    page_checks.export,
    request_checks.counts,
    request_checks.nothing_else,
    request_checks.robots_first,
    request_checks.retry_after,
    request_checks.site_pauses,
    request_checks.spacing,
    request_checks.user_agent,
)

# A page limit cuts the crawl off anywhere: what is missing proves nothing.
_CUT_OFF: _Checks = (
    page_checks.page_limit,
    page_checks.no_other_page,
    page_checks.statuses,
    page_checks.contents,
    request_checks.request_limit,
    request_checks.nothing_else,
)


def check_crawl(evidence: Evidence) -> list[Check]:
    """Everything that can be said about a crawl, with a page limit or without."""
    checks = _WHOLE if evidence.limits.max_pages is None else _CUT_OFF
    return [check(evidence) for check in checks]
