import pytest

from crawl_actors.seeding import scoped_settings, seed_urls
from crawl_actors.settings import CrawlSettings


def test_seeds_are_normal_forms_each_once() -> None:
    assert seed_urls(["HTTP://A.example", "http://a.example/#x", "http://b.example/"]) == [
        "http://a.example/",
        "http://b.example/",
    ]


@pytest.mark.parametrize(
    "seed",
    ["ftp://a.example/", "a.example", "http://", "", "http://a b/", "http:///x", "http:a.example"],
)
def test_seed_that_is_no_web_address_is_named(seed: str) -> None:
    with pytest.raises(ValueError, match="http or https") as caught:
        seed_urls(["http://a.example/", seed])

    assert repr(seed) in str(caught.value)


@pytest.mark.parametrize("seed", ["http://user:pw@a.example/", "https://user@a.example/"])
def test_seed_with_credentials_is_refused_without_telling_them(seed: str) -> None:
    with pytest.raises(ValueError, match="credentials in URLs are not supported") as caught:
        seed_urls([seed])

    assert "user:pw" not in str(caught.value)


def test_crawl_without_seeds_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one URL"):
        seed_urls([])


def test_scope_without_allow_is_the_seeds_own_hosts() -> None:
    settings = scoped_settings(CrawlSettings(), ["http://a.example:8080/x"])

    assert settings.allow == ("a.example:8080",)


def test_scope_that_was_given_is_kept() -> None:
    settings = scoped_settings(CrawlSettings(allow=("*.b.example",)), ["http://a.example/"])

    assert settings.allow == ("*.b.example",)


def test_user_agent_that_robots_txt_could_not_name_is_refused() -> None:
    with pytest.raises(ValueError, match="123"):
        scoped_settings(CrawlSettings(user_agent="123"), ["http://a.example/"])
