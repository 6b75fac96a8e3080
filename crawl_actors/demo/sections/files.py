"""Things that are not HTML, bodies that are packed, and bodies that are too large."""

from __future__ import annotations

import json

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.resources import Answer, Resource, Section

TOO_LARGE = 2 * 1024 * 1024


def files(builder: Builder) -> Section:
    """Files are stored and never searched for links."""
    forbidden = {
        builder.url(f"/never/in-{kind}.html"): f"it is named only inside a {kind} file"
        for kind in ("txt", "json", "svg", "xml")
    }
    lures = [f'<a href="{url}">{url}</a>' for url in forbidden]
    resources = [
        builder.file("/files/notes.txt", "text/plain; charset=utf-8", lures[0].encode()),
        builder.file("/files/data.json", "application/json", json.dumps(lures[1]).encode()),
        builder.file("/files/drawing.svg", "image/svg+xml", f"<svg>{lures[2]}</svg>".encode()),
        builder.file("/files/feed.xml", "application/xml", f"<x>{lures[3]}</x>".encode()),
        builder.file("/files/paper.pdf", "application/pdf", b"%PDF-1.4\n" + bytes(range(256))),
        builder.file("/files/dot.gif", "image/gif", b"GIF89a\x01\x00\x01\x00\x00\x00\x00;"),
        builder.file("/files/empty.txt", "text/plain", b""),
        builder.file("/files/large.bin", "application/octet-stream", b"\xa5" * TOO_LARGE),
        _bomb(builder),
        *_packed(builder),
    ]
    entrances = [resource.url for resource in resources if "/beyond" not in resource.url]
    return Section(resources, entrances, forbidden)


def _bomb(builder: Builder) -> Resource:
    """A few kilobytes that unpack to far too many."""
    answer = Answer(body=bytes(TOO_LARGE), gzip=True)
    return Resource(builder.url("/files/bomb.html"), answer)


def _packed(builder: Builder) -> list[Resource]:
    """Pages that are HTML although something hides it, and pages with nothing in them."""
    beyond = builder.page("/files/beyond.html", "Beyond the packed page")
    other = builder.page("/files/beyond-xhtml.html", "Beyond XHTML")
    third = builder.page("/files/beyond-untyped.html", "Beyond the page without a type")
    xhtml = Answer(content_type="application/xhtml+xml; charset=utf-8")
    untyped = Answer(content_type=None)
    return [
        beyond,
        other,
        third,
        builder.page("/files/packed.html", "Packed", links=[beyond.url], answer=Answer(gzip=True)),
        builder.page("/files/strict.xhtml", "Strict", links=[other.url], answer=xhtml),
        builder.page("/files/untyped", "Untyped", links=[third.url], answer=untyped),
        builder.page("/files/empty.html", ""),
        Resource(builder.url("/files/nothing.html"), Answer(body=b"")),
        Resource(builder.url("/files/no-content"), Answer(204, content_type=None)),
    ]
