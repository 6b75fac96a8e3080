"""Pages in old character sets, declared in all the places a declaration can be."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.markup import plain_page_html
from crawl_actors.demo.resources import Answer, Resource, Section

# path, content type, head, codec, title
_PAGES = (
    ("cp1252", "text/html; charset=windows-1252", "", "cp1252", "Café “Zur Post”: 5 €"),
    # Browsers read "iso-8859-1" as windows-1252.
    ("latin1", "text/html; charset=ISO-8859-1", "", "cp1252", "“Naïve” façade™"),
    ("sjis", "text/html", '<meta charset="shift_jis">', "shift_jis", "日本語のページ"),
    (
        "koi8",
        "text/html",
        '<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">',
        "koi8_r",
        "Русская страница",
    ),
    ("gbk", "text/html;charset=gb2312", "", "gbk", "中文网页"),
    ("euckr", "text/html", "<meta charset='euc-kr'>", "euc_kr", "한국어 문서"),
    ("utf16", "text/html", "", "utf_16_le", "Ελληνικά ☕"),
    ("utf8", 'text/html; charset="UTF-8"', "", "utf_8", "Zażółć gęślą jaźń 🦊"),
)


def charsets(builder: Builder) -> Section:
    """Each page links to one more, so a page that was not decoded leaves one out."""
    resources = list(_pages(builder))
    entrances = [resource.url for resource in resources if resource.links]
    return Section(resources, entrances)


def _pages(builder: Builder) -> Iterator[Resource]:
    for name, content_type, head, codec, title in _PAGES:
        url = builder.url(f"/charsets/{name}.html")
        beyond = builder.url(f"/charsets/{name}/beyond.html")
        body = plain_page_html(title, links=[beyond], head=head).encode(codec)
        if codec == "utf_16_le":
            body = codecs.BOM_UTF16_LE + body
        answer = Answer(content_type=content_type, body=body)
        yield Resource(url, answer, title=title, links=(beyond,))
        yield builder.page(f"/charsets/{name}/beyond.html", f"Beyond {name}")
