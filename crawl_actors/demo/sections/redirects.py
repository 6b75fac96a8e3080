"""Redirects: chains, loops, dead ends, and ways off the site."""

from __future__ import annotations

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.resources import Answer, Resource, Section


def redirects(builder: Builder) -> Section:
    """Each redirect is a row of its own; what it points to is as deep as it is."""
    resources = [
        *_statuses(builder),
        *_chain(builder),
        *_loops(builder),
        *_spelled(builder),
        *_dead_ends(builder),
    ]
    outside = f"{builder.elsewhere}/redirected"
    resources.append(builder.redirect("/moved/elsewhere", outside))
    entrances = [*_doors(resources), builder.url("/loop/1"), builder.url("/loop/self")]
    return Section(resources, entrances, {outside: "it is on another site"})


def _doors(resources: list[Resource]) -> list[str]:
    """The redirects that no other redirect leads to."""
    targets = {resource.redirect_to for resource in resources}
    return [
        resource.url
        for resource in resources
        if 300 <= resource.answer.status < 400 and resource.url not in targets
    ]


def _statuses(builder: Builder) -> list[Resource]:
    """One redirect for each status; their target is a page with a child."""
    child = builder.page("/moved/child.html", "Child of what moved")
    target = builder.page("/moved/target.html", "What moved", links=[child.url])
    moved = [
        builder.redirect(f"/moved/{status}", target.url, status=status)
        for status in (301, 302, 303, 307, 308)
    ]
    return [child, target, *moved]


def _chain(builder: Builder) -> list[Resource]:
    """A chain of six redirects to a page that links on."""
    beyond = builder.page("/chain/beyond.html", "Beyond the chain")
    end = builder.page("/chain/end.html", "End of the chain", links=[beyond.url])
    stops = [builder.url(f"/chain/{number}") for number in range(1, 7)]
    links = [
        builder.redirect(stop.removeprefix(builder.origin), following)
        for stop, following in zip(stops, [*stops[1:], end.url], strict=True)
    ]
    return [beyond, end, *links]


def _loops(builder: Builder) -> list[Resource]:
    stops = [builder.url(f"/loop/{number}") for number in (1, 2, 3)]
    loop = [
        builder.redirect(stop.removeprefix(builder.origin), following)
        for stop, following in zip(stops, [*stops[1:], stops[0]], strict=True)
    ]
    itself = builder.redirect("/loop/self", builder.url("/loop/self"), location="self#again")
    return [*loop, itself]


def _spelled(builder: Builder) -> list[Resource]:
    """Location headers that are not a whole canonical URL."""
    target = builder.page("/moved/~spelled/here.html", "Well spelled")
    spellings = (
        "../moved/%7Espelled/here.html",
        "/moved/./~spelled/./here.html#top",
        target.url.replace("http://localhost", "HTTP://LocalHost"),
        "~spelled/here.html?",
    )
    return [
        target,
        *(
            builder.redirect(f"/moved/spelled-{number}", target.url, location=spelling)
            for number, spelling in enumerate(spellings)
        ),
    ]


def _dead_ends(builder: Builder) -> list[Resource]:
    missing = builder.failure("/moved/missing.html", 404)
    nowhere = Resource(builder.url("/moved/nowhere"), Answer(302, body=b"<p>Lost.</p>"))
    return [missing, builder.redirect("/moved/to-missing", missing.url, status=301), nowhere]
