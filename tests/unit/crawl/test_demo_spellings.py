"""Every spelling of a URL means that URL to a browser."""

import random
import re

import ada_url
import pytest

from crawl_actors.demo.spellings import WAYS, Way, spell

BASES = ("http://localhost:8123/", "http://localhost:8123/a/b.html", "http://localhost:8123/~x/y/")
PATHS = (
    "/",
    "/alike",
    "/alike/",
    "/alike//",
    "/a/b/c.html",
    "/~x/caf%C3%A9/",
    "/a%2Fb?q=a%20b&r=%C3%A9",
    "/?a",
)


def read_like_a_browser(href: str, base: str) -> str:
    """The URL as a server gets it, unreserved escapes decoded and the others in capitals."""
    url = ada_url.URL(href, base)
    path = re.sub(
        "%[0-9A-Fa-f]{2}",
        lambda escape: (
            chr(int(escape[0][1:], 16))
            if re.fullmatch("[A-Za-z0-9._~-]", chr(int(escape[0][1:], 16)))
            else escape[0].upper()
        ),
        url.pathname + url.search,
    )
    return f"{url.protocol}//{url.host}{path}"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("path", PATHS)
def test_spelling_means_the_same_url(way: Way, base: str, path: str) -> None:
    url = f"http://localhost:8123{path}"

    spellings = [way(url, base, random.Random(seed)) for seed in range(20)]

    assert {read_like_a_browser(spelling, base) for spelling in spellings} == {url}


@pytest.mark.parametrize("way", WAYS[1:], ids=lambda way: way.__name__)
def test_spelling_differs_from_the_url(way: Way) -> None:
    url = "http://localhost:8123/~x/caf%C3%A9/page.html"

    spelling = way(url, "http://localhost:8123/a/b.html", random.Random(1))

    assert spelling != url


def test_url_of_another_site_is_left_as_it_is() -> None:
    url = "http://localhost:8124/~x/page.html"

    spellings = {spell(url, base=BASES[0], rng=random.Random(seed)) for seed in range(50)}

    assert spellings == {url}
