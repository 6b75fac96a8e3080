import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_actors.pages import Page
from crawl_actors.parsing import MAX_TEXT_LENGTH, MAX_TITLE_LENGTH, Parsed, parse
from crawl_actors.urls import canonical_url

URL = "http://example.com/dir/page"
MARKUP = [
    *("<html>", "<head>", "</head>", "<body>", "<title>", "</title>", "<a href=", "<a href='x'>"),
    *(
        "</a>",
        "<base href='",
        "'>",
        ">",
        "<!--",
        "-->",
        "<script>",
        "</script>",
        "<![CDATA[",
        "]]>",
    ),
    *("<?xml encoding='utf-16'?>", "<meta charset=", "utf-7", "\0", "\ufeff", "&#0;", "&#xD800;"),
    *(
        "&",
        "<",
        "<p",
        "<area href=y>",
        "<svg>",
        "<template>",
        "<textarea>",
        "<plaintext>",
        "é",
        " ",
    ),
]


def read(
    body: bytes | str, *, content_type: str | None = "text/html", charset: str | None = None
) -> Parsed:
    data = body.encode() if isinstance(body, str) else body
    return parse(Page(URL, status=200, content_type=content_type, charset=charset, body=data))


def test_links_are_absolute_each_once_and_in_document_order() -> None:
    parsed = read(
        "<a href='/b'>b</a> <map><area href='c'></map> <A HREF=' ./a \n'>a</A>"
        "<a href='/b#part'>b again</a> <a href='HTTP://EXAMPLE.com:80/b'>and again</a>"
        "<a href='//other.example'>o</a>"
    )

    assert parsed.links == (
        "http://example.com/b",
        "http://example.com/dir/c",
        "http://example.com/dir/a",
        "http://other.example/",
    )


def test_only_links_for_readers_count() -> None:
    parsed = read(
        "<link href='a'><script src='b'></script><img src='c'><form action='d'></form>"
        "<iframe src='e'></iframe><a name='f'>f</a><a href='mailto:g@example.com'>g</a>"
        "<a href='javascript:h'>h</a><!-- <a href='i'>i</a> --><a href='http://['>j</a>"
    )

    assert parsed.links == ()


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("<base href='/other/'>", "http://example.com/other/x"),
        ("<base href='sub/'>", "http://example.com/dir/sub/x"),
        ("<base href='http://other.example/a/b'>", "http://other.example/a/x"),
        ("<base target='_top'><base href='/second/'>", "http://example.com/second/x"),
        ("<base href='/first/'><base href='/second/'>", "http://example.com/first/x"),
        ("<base href='javascript:alert(1)'>", "http://example.com/dir/x"),
        ("<base href='http://example.com:99999/'>", "http://example.com/dir/x"),
    ],
)
def test_links_start_from_the_first_base(base: str, expected: str) -> None:
    assert read(f"<head>{base}</head><a href='x'>x</a>").links == (expected,)


def test_a_base_counts_for_links_before_it_too() -> None:
    assert read("<a href='x'>x</a><base href='/other/'>").links == ("http://example.com/other/x",)


@pytest.mark.parametrize("rel", ["nofollow", "NoFollow", "external nofollow", "a\nnofollow\tb"])
def test_a_link_marked_nofollow_is_left_out(rel: str) -> None:
    parsed = read(f"<a rel='{rel}' href='a'>a</a><a rel='nofollowing' href='b'>b</a>")

    assert parsed.links == ("http://example.com/dir/b",)


def test_a_link_is_kept_when_only_one_of_its_places_is_marked_nofollow() -> None:
    parsed = read("<a rel='nofollow' href='a'>a</a><a href='a'>a</a>")

    assert parsed.links == ("http://example.com/dir/a",)


@pytest.mark.parametrize(
    "content", ["nofollow", "noindex,NOFOLLOW", "none", " noindex , nofollow "]
)
def test_a_page_marked_nofollow_has_no_links(content: str) -> None:
    parsed = read(f"<meta name='Robots' content='{content}'><a href='a'>text</a>")

    assert parsed.links == ()
    assert parsed.text == "text"


@pytest.mark.parametrize(
    "meta",
    [
        "<meta name='robots' content='noindex'>",
        "<meta name='description' content='nofollow'>",
        "<meta name='robots'>",
        "<meta content='nofollow'>",
    ],
)
def test_other_meta_tags_change_nothing(meta: str) -> None:
    assert len(read(f"{meta}<a href='a'>a</a>").links) == 1


def test_the_title_is_the_first_one_collapsed() -> None:
    parsed = read("<title>\n A &amp; B  C\t</title><title>second</title><body>text")

    assert parsed.title == "A & B C"
    assert parsed.text == "text"


@pytest.mark.parametrize("body", ["<p>no title", "<title> \n </title>x"])
def test_without_words_there_is_no_title(body: str) -> None:
    assert read(body).title is None


def test_the_text_is_what_a_reader_sees() -> None:
    parsed = read(
        "<head><style>s</style></head><p>One<p>two, th<b>re</b>e<br>four"
        "<script>if (a < b) {}</script><style>p {}</style><template>t</template>\n\n five"
        "<!-- comment --><table><tr><td>six<td>seven</table><noscript>eight</noscript>"
    )

    assert parsed.text == "One two, three four five six seven eight"


def test_text_and_title_are_cut_at_their_limits() -> None:
    parsed = read(f"<title>{'t' * 5_000}</title><p>{'word ' * 50_000}</p><p>{'x' * 500_000}</p>")

    assert parsed.title == "t" * MAX_TITLE_LENGTH
    assert MAX_TEXT_LENGTH - 10 < len(parsed.text) <= MAX_TEXT_LENGTH
    assert parsed.text.startswith("word word ")


@pytest.mark.parametrize(
    ("body", "charset", "expected"),
    [
        ("<p>naïve".encode(), None, "naïve"),
        ("<p>naïve".encode("cp1252"), None, "naïve"),
        ("<p>naïve".encode("cp1252"), "cp1252", "naïve"),
        ("<meta charset='windows-1251'><p>привет".encode("cp1251"), None, "привет"),
        ("<meta charset='windows-1251'><p>naïve".encode(), "utf-8", "naïve"),
        ("<p>naïve".encode("utf-8-sig"), "cp1252", "naïve"),
        ("<p>naïve".encode("utf-16"), None, "naïve"),
        ("<p>naïve".encode("utf-16-le"), "utf-16-le", "naïve"),
        ("<meta charset='utf-16'><p>naïve".encode(), None, "naïve"),
        ("<meta charset='shift_jis'><p>日本".encode("shift_jis"), None, "日本"),
        (b"<p>broken \xff\xe9", "utf-8", "broken \ufffd\ufffd"),
    ],
)
def test_the_character_set_is_the_one_a_browser_would_choose(
    body: bytes, charset: str | None, expected: str
) -> None:
    assert read(body, charset=charset).text == expected


@pytest.mark.parametrize(
    "charset",
    ["hex", "base64", "zlib", "rot13", "idna", "punycode", "unicode-escape", "undefined", "utf-7"],
)
def test_a_codec_that_is_no_character_set_is_passed_over(charset: str) -> None:
    declared = f"<meta charset='{charset}'><a href='x'>naïve</a>"

    expected = Parsed(links=("http://example.com/dir/x",), text="naïve")
    assert read(declared) == expected
    assert read("<a href='x'>naïve</a>", charset=charset) == expected


@pytest.mark.parametrize("body", ["", " \n ", "<!-- comment -->", "\0", "<", "</p>", "<?php ?>"])
def test_a_page_without_content_has_nothing_to_say(body: str) -> None:
    parsed = read(body)

    assert parsed.links == ()
    assert parsed.title is None


def test_a_nul_does_not_end_the_page() -> None:
    parsed = read("\0<a href='x'>be\0fore</a>\0<a href='y'>after</a>")

    assert len(parsed.links) == 2
    assert parsed.text == "\ufffdbe\ufffdfore\ufffdafter"


@pytest.mark.parametrize("tag", ["div", "b", "a href=q", "table", "ul><li", "svg", "select"])
def test_links_are_found_however_deep_they_are(tag: str) -> None:
    started = time.monotonic()
    parsed = read(f"<{tag}>" * 50_000 + "<a href='deep'>x</a>")

    assert "http://example.com/dir/deep" in parsed.links
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "body", ["<" * 500_000, "<a " * 500_000, "<!--" * 500_000, "&" * 3_000_000, "x" * 3_000_000]
)
def test_junk_takes_no_more_time_than_its_length(body: str) -> None:
    started = time.monotonic()
    parsed = read(f"{body}")

    assert parsed.links == ()
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("content_type", "count"),
    [("application/xhtml+xml", 1), ("text/plain", 0), ("application/pdf", 0), (None, 0)],
)
def test_only_html_is_read(content_type: str | None, count: int) -> None:
    body = "<?xml version='1.0' encoding='utf-8'?><html><body><a href='x'>é</a></body></html>"

    assert len(read(body, content_type=content_type).links) == count


@given(st.lists(st.sampled_from(MARKUP), max_size=40), st.sampled_from([None, "utf-16", "cp1252"]))
def test_no_markup_raises_and_all_links_are_in_normal_form(
    pieces: list[str], charset: str | None
) -> None:
    parsed = read("".join(pieces), charset=charset)

    assert all(canonical_url(link) == link for link in parsed.links)
    assert len(set(parsed.links)) == len(parsed.links)
    assert " ".join(parsed.text.split()) == parsed.text
    parsed.text.encode()


@given(st.binary(max_size=300))
def test_no_bytes_raise(body: bytes) -> None:
    assert read(b"<a href='x'>" + body).links
