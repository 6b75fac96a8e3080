"""What robots.txt allows and forbids; it is reached through a redirect."""

from __future__ import annotations

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.resources import Section

_RULES = """\
# The rules of the demo's site.
User-agent: some-other-bot
Disallow: /

User-agent: *
Disallow: /private/
Allow: /private/open/
Disallow: /*.cgi
Disallow: /exact$
Disallow: /search?
Allow: /search?q=allowed
Disallow: /closed-caf%C3%A9/
Disallow:
"""

_ALLOWED = (
    "/private/open/page.html",
    "/private",
    "/exact/more.html",
    "/exactly.html",
    "/search",
    "/search?q=allowed",
    "/cgi.html",
)

_FORBIDDEN = (
    "/private/",
    "/private/page.html",
    "/private/opening.html",
    "/tools/run.cgi",
    "/tools/run.cgi?job=1",
    "/exact",
    "/search?q=anything",
    "/closed-caf%C3%A9/page.html",
)


def robots(builder: Builder) -> Section:
    """Pages on both sides of each rule; behind a forbidden one is a page nobody may know of."""
    secret = builder.page("/never/behind-robots.html", "Behind a forbidden page")
    allowed = [builder.page(path, f"Allowed: {path}") for path in _ALLOWED]
    closed = [builder.page(path, f"Forbidden: {path}", links=[secret.url]) for path in _FORBIDDEN]
    into = builder.redirect("/moved/into-private", builder.url("/private/page.html"))
    rules = builder.file("/about/robots.txt", "text/plain", _RULES.encode())
    entrance = builder.redirect("/robots.txt", rules.url, status=301)
    forbidden = {resource.url: "robots.txt forbids it" for resource in closed}
    forbidden[secret.url] = "only pages that robots.txt forbids link to it"
    return Section(
        [secret, *allowed, *closed, into, rules, entrance],
        [resource.url for resource in (*allowed, *closed, into)],
        forbidden,
        closed=[resource.url for resource in closed],
    )
