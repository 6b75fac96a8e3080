import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawl_actors.urls import MAX_URL_LENGTH, canonical_url, site_of

ODD = st.text(
    st.sampled_from("abAZ019-._~%/\\?#@:&=+ \t\n\r\0[]{}|^`'\"<>éß漢\u3002\ud800"), max_size=40
)
URLS = st.one_of(
    st.text(max_size=60),
    ODD,
    ODD.map(lambda rest: f"http://example.com{rest}"),
    ODD.map(lambda rest: f"https://example.com/{rest}"),
    ODD.map(lambda rest: f"//{rest}"),
)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTP://EXAMPLE.com/Path", "http://example.com/Path"),
        ("http://example.com:80/", "http://example.com/"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com:/", "http://example.com/"),
        ("http://example.com:08080/", "http://example.com:8080/"),
        ("http://example.com/a/./b/../c", "http://example.com/a/c"),
        ("http://example.com/../..", "http://example.com/"),
        ("http://example.com/a/%2e%2E/b", "http://example.com/b"),
        ("http://example.com/#part", "http://example.com/"),
        ("http://example.com/?", "http://example.com/"),
        ("http://example.com/?#", "http://example.com/"),
        ("http://example.com?a=1", "http://example.com/?a=1"),
        ("http://user:secret@example.com/", "http://example.com/"),
        ("http://example.com/%7euser", "http://example.com/~user"),
        ("http://example.com/a%2fb%3a", "http://example.com/a%2Fb%3A"),
        ("http://example.com/%41?%42=%7e", "http://example.com/A?B=~"),
        ("http://example.com/100%", "http://example.com/100%25"),
        ("http://example.com/%zz%4", "http://example.com/%25zz%254"),
        ("http://example.com/%2541", "http://example.com/%2541"),
        ("http://example.com/é", "http://example.com/%C3%A9"),
        ("http://example.com/?q=ü", "http://example.com/?q=%C3%BC"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://example。com/", "http://example.com/"),
        (" \t http://example.com/a\tb\nc \r\n", "http://example.com/abc"),
        ("http:\\\\example.com\\a\\b", "http://example.com/a/b"),
        ("http:/example.com/", "http://example.com/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[0:0::1]:8000/", "http://[::1]:8000/"),
        ("http://example.com/a b", "http://example.com/a%20b"),
    ],
)
def test_spellings_of_one_url_become_one_normal_form(url: str, expected: str) -> None:
    assert canonical_url(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/?b=2&a=1",
        "http://example.com/index.html",
        "http://example.com/a",
        "http://example.com/a/",
        "http://example.com//a//b",
        "http://example.com/?a=+b",
        "http://example.com/?a=%20b",
        "http://example.com./",
        "http://example.com/A",
    ],
)
def test_spellings_that_servers_may_tell_apart_stay_as_they_are(url: str) -> None:
    assert canonical_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/path",
        "example.com",
        "localhost:8000/",
        "mailto:a@example.com",
        "javascript:alert(1)",
        "data:text/html,x",
        "ftp://example.com/",
        "file:///etc/passwd",
        "http://",
        "http:///",
        "http://exa mple.com/",
        "http://example.com:99999/",
        "http://example.com:port/",
        "http://[::1/",
        "http://a%2fb/",
        "http://999.1.1.1/",
        "http://example.com/\ud800",
    ],
)
def test_what_is_no_web_address_has_no_normal_form(url: str) -> None:
    assert canonical_url(url) is None


@pytest.mark.parametrize(
    ("url", "base", "expected"),
    [
        ("b", "http://example.com/a/c", "http://example.com/a/b"),
        ("../b", "http://example.com/a/c/d", "http://example.com/a/b"),
        ("/b", "http://example.com/a/", "http://example.com/b"),
        ("//other.example/b", "https://example.com/", "https://other.example/b"),
        ("?q=1", "http://example.com/a?p=2", "http://example.com/a?q=1"),
        ("#top", "http://example.com/a?p=2", "http://example.com/a?p=2"),
        ("", "http://example.com/a?p=2#x", "http://example.com/a?p=2"),
        ("http:b", "http://example.com/a/c", "http://example.com/a/b"),
        ("https://other.example/", "no base at all", "https://other.example/"),
        ("b", "no base at all", None),
        ("b", "mailto:a@example.com", None),
        ("mailto:a@example.com", "http://example.com/", None),
    ],
)
def test_relative_urls_start_from_the_base(url: str, base: str, expected: str | None) -> None:
    assert canonical_url(url, base) == expected


def test_the_longest_url_is_kept_and_a_longer_one_is_not() -> None:
    longest = "http://example.com/".ljust(MAX_URL_LENGTH, "a")

    assert canonical_url(longest) == longest
    assert canonical_url(longest + "a") is None
    assert canonical_url("http://example.com/" + "é" * 1000) is None


@given(URLS, st.one_of(st.none(), URLS))
@example("http://example.com/%%34%31", None)
@example("http://example.com/%25%34%31", None)
@example("http://example.com/.%252e/", None)
def test_the_normal_form_of_a_normal_form_is_itself(url: str, base: str | None) -> None:
    canonical = canonical_url(url, base)

    if canonical is not None:
        assert canonical_url(canonical) == canonical
        assert canonical_url(canonical, base) == canonical
        assert canonical.isascii()
        assert "#" not in canonical
        assert len(canonical) <= MAX_URL_LENGTH


@given(URLS)
def test_a_site_is_the_beginning_of_its_urls(url: str) -> None:
    canonical = canonical_url(url)

    if canonical is not None:
        assert canonical.startswith(f"{site_of(url)}/")
        assert canonical_url(site_of(url)) == f"{site_of(url)}/"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://user@EXAMPLE.com:80/a?b", "http://example.com"),
        ("https://example.com:8443/", "https://example.com:8443"),
        ("http://[::1]:8000/a", "http://[::1]:8000"),
        ("http://example.com?a=/b", "http://example.com"),
    ],
)
def test_a_site_is_scheme_host_and_unusual_port(url: str, expected: str) -> None:
    assert site_of(url) == expected


def test_what_is_no_web_address_has_no_site() -> None:
    with pytest.raises(ValueError, match="mailto:a"):
        site_of("mailto:a")
