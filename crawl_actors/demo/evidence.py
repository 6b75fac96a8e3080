"""What is known after a crawl of the demo's site, and the form of a verdict on it (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawl_actors.demo.server import Visit
from crawl_actors.demo.site import Site
from crawl_actors.demo.truth import Expected, Limits

Row = Mapping[str, Any]
"""One stored page: the names are those of `pages.jsonl`."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A finished crawl, seen from both ends.

    Args:
        truth: What `expected_pages` says about *site* and *limits*.
        rows: What the crawl exported, in the order of the file.
        stored: The URLs its storage holds.
        visits: The requests that the site's server saw.
        strays: The requests that the other site's server saw.
    """

    site: Site
    limits: Limits
    truth: Mapping[str, Expected]
    rows: Sequence[Row]
    stored: Sequence[str]
    visits: Sequence[Visit]
    strays: Sequence[Visit] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Args:
        rule: What has to be so, as a short clause.
        looked_at: How many cases there were.
        findings: What is not so, each a sentence.
    """

    rule: str
    looked_at: int
    findings: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """True when there were cases and all of them are as they should be."""
        return not self.findings and self.looked_at > 0
