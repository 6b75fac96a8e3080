"""Links that are not to be taken, links that are hard to see, and links that lead elsewhere."""

from __future__ import annotations

from dataclasses import replace

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.markup import page_html
from crawl_actors.demo.resources import Answer, Resource, Section

# Where a link is that nobody is to take, and why. "{url}" is filled in.
_LURES = {
    "nofollow": ('<a rel="nofollow" href="{url}">x</a>', "every link to it is rel=nofollow"),
    "nofollow-list": ('<a rel="ugc NoFollow" href="{url}">x</a>', "its links are rel=nofollow"),
    "comment": ('<!-- <a href="{url}">x</a> -->', "only a comment names it"),
    "script": ("<script>var x = '<a href=\"{url}\">x</a>';</script>", "only a script names it"),
    "style": ("<style>a {{ background: url({url}) }}</style>", "only a style sheet names it"),
    "image": ('<img src="{url}" alt="">', "it is an image of a page, not a link"),
    "sheet": ('<link rel="stylesheet" href="{url}">', "it is a style sheet, not a link"),
    "code": ('<script src="{url}"></script>', "it is a script, not a link"),
    "form": ('<form action="{url}"><button>x</button></form>', "it is where a form goes"),
    "text": ("<p>{url}</p>", "it stands in the text and is no link"),
}

# Hrefs that are no web pages at all; none may do harm.
_NO_PAGES = """
<a>nothing</a> <a name="here">here</a> <a href="">self</a> <a href="#here">here</a>
<a href="mailto:someone@example.com">mail</a> <a href="javascript:void(0)">script</a>
<a href="tel:+431234567">call</a> <a href="data:text/html,<a href=/never/data.html>x</a>">data</a>
<a href="ftp://localhost/file">ftp</a> <a href="file:///etc/hostname">file</a>
<a href="http://[broken/">broken</a> <a href="http://localhost:99999/">port</a>
<a href="http://">nothing</a> <a href="http://local host/">space</a> <a href="//">slashes</a>
"""

# A parser that follows every level by recursion, or stops at some depth, loses the link inside.
_NESTING = 300


def odd_links(builder: Builder) -> Section:
    """Every page here shows one kind of link."""
    lures = {name: builder.url(f"/never/{name}.html") for name in _LURES}
    forbidden = {url: _LURES[name][1] for name, url in lures.items()}
    pages = [_page_of_lures(builder, lures), *_hidden(builder), *_based(builder)]
    entrances = [page.url for page in pages if "/beyond" not in page.url]
    for section in (_mute(builder), _elsewhere(builder)):
        pages += section.resources
        entrances += section.entrances
        forbidden |= section.forbidden
    return Section(pages, entrances, forbidden)


def _page_of_lures(builder: Builder, lures: dict[str, str]) -> Resource:
    html = "\n".join(_LURES[name][0].format(url=url) for name, url in lures.items())
    return builder.page("/odd/lures.html", "Not to be taken", extra=html + _NO_PAGES)


def _hidden(builder: Builder) -> list[Resource]:
    """Links in image maps, in deep nesting and in broken markup."""
    snippets = {
        "area": '<map name="m"><area href="{url}" alt=""></map>',
        "nested": "<div>" * _NESTING + '<a href="{url}">deep</a>' + "</div>" * _NESTING,
        "broken": '<table><tr><td><a href="/odd/area.html"><p></b>\x00<a href={url}>x</table></i>',
    }
    pages = []
    for name, snippet in snippets.items():
        beyond = builder.page(f"/odd/beyond-{name}.html", f"Beyond {name}")
        page = builder.page(
            f"/odd/{name}.html", f"Odd: {name}", extra=snippet.format(url=beyond.url)
        )
        also = [builder.url("/odd/area.html")] if name == "broken" else []
        pages += [beyond, replace(page, links=(beyond.url, *also))]
    return pages


def _based(builder: Builder) -> list[Resource]:
    """Relative links that count from a base URL; a second <base> says nothing."""
    base = builder.url("/odd/base/deep/")
    target = builder.page("/odd/base/deep/beyond.html", "Beyond the base")
    url = builder.url("/odd/based.html")
    head = f'<base target="_top"><base href="base/deep/"><base href="{builder.elsewhere}/">'
    text = page_html(
        url,
        "Based",
        links=[target.url],
        rng=builder.rng,
        base=base,
        head=head,
        extra='<a href="beyond.html">beyond</a>',
    )
    return [target, Resource(url, Answer(body=text.encode()), title="Based", links=(target.url,))]


def _mute(builder: Builder) -> Section:
    """Pages that ask for none of their links to be taken."""
    forbidden = {}
    pages = []
    for number, content in enumerate(("nofollow", "noindex, NOFOLLOW", "none")):
        url = builder.url(f"/never/mute-{number}.html")
        forbidden[url] = f'the page that links to it says robots "{content}"'
        head = f'<meta name="Robots" content="{content}">'
        extra = f'<a href="{url}">x</a>'
        pages.append(builder.page(f"/odd/mute-{number}.html", "Mute", head=head, extra=extra))
    return Section(pages, [page.url for page in pages], forbidden)


def _elsewhere(builder: Builder) -> Section:
    """Links to other sites: another port, another name for this host."""
    port = builder.origin.rpartition(":")[2]
    outside = [
        f"{builder.elsewhere}/",
        f"{builder.elsewhere}/page.html",
        f"http://127.0.0.1:{port}/other-name.html",
        "http://demo.invalid/",
    ]
    page = builder.page("/odd/elsewhere.html", "Elsewhere", links=outside)
    forbidden = dict.fromkeys(outside, "it is on another site")
    # A base URL elsewhere takes the relative links of its page there.
    away = f"{builder.elsewhere}/away/page.html"
    forbidden[away] = "the <base> of its page is on another site"
    based = builder.page(
        "/odd/based-elsewhere.html",
        "Based elsewhere",
        head=f'<base href="{builder.elsewhere}/away/">',
        extra='<a href="page.html">x</a>',
    )
    resources = [page, replace(based, links=(away,))]
    return Section(resources, [resource.url for resource in resources], forbidden)
