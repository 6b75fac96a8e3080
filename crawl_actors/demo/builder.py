"""Makes the resources of one site: its origin, its seed and the usual kinds of page."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from crawl_actors.demo.markup import page_html
from crawl_actors.demo.plan import SitePlan
from crawl_actors.demo.resources import Answer, Resource


class Builder:
    """Makes resources below one origin, all chance drawn from one seed.

    Args:
        origin: `http://localhost:port`, where the site is served.
        elsewhere: The origin of another site, for links that leave this one.
    """

    def __init__(self, plan: SitePlan, *, origin: str, elsewhere: str) -> None:
        self.plan = plan
        self.origin = origin
        self.elsewhere = elsewhere
        self.rng = random.Random(plan.seed)

    def url(self, path: str) -> str:
        """The canonical URL of *path*, which is canonical itself."""
        return self.origin + path

    def page(
        self,
        path: str,
        title: str,
        *,
        links: Sequence[str] = (),
        answer: Answer | None = None,
        failures: Sequence[Answer] = (),
        head: str = "",
        extra: str = "",
    ) -> Resource:
        """An HTML page in UTF-8 that links to the URLs *links*.

        Args:
            answer: How it is sent, when not at once; its body is filled in.
        """
        url = self.url(path)
        rng = random.Random(f"{self.plan.seed} {path}")
        text = page_html(url, title, links=links, rng=rng, head=head, extra=extra)
        return Resource(
            url,
            replace(answer or Answer(), body=text.encode()),
            failures=tuple(failures),
            title=title or None,
            links=tuple(links),
        )

    def file(self, path: str, content_type: str, body: bytes) -> Resource:
        """Something that is not HTML."""
        return Resource(self.url(path), Answer(content_type=content_type, body=body))

    def redirect(
        self, path: str, target: str, *, status: int = 302, location: str | None = None
    ) -> Resource:
        """A redirect to the URL *target*.

        Args:
            location: How the Location header spells *target*, when not in full.
        """
        headers = (("Location", target if location is None else location),)
        answer = Answer(status, headers=headers, body=b"<p>Moved.</p>")
        return Resource(self.url(path), answer, redirect_to=target)

    def failure(
        self, path: str, status: int, *, headers: Sequence[tuple[str, str]] = ()
    ) -> Resource:
        """A page that is never there."""
        body = f"<!doctype html><title>{status}</title><p>Status {status}.</p>".encode()
        return Resource(self.url(path), Answer(status, headers=tuple(headers), body=body))
