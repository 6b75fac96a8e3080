from pathlib import Path

import pytest

from crawl_actors.settings import CrawlSettings, Environment


def test_settings_survive_the_way_through_json() -> None:
    settings = CrawlSettings(max_depth=3, allow=("a.example", "*.b.example"), delay_ms=0)

    assert CrawlSettings.from_dict(settings.to_dict()) == settings


def test_missing_setting_has_its_default() -> None:
    assert CrawlSettings.from_dict({"max_depth": 2}) == CrawlSettings(max_depth=2)


def test_unknown_setting_is_named_beside_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'depth'.*max_depth"):
        CrawlSettings.from_dict({"depth": 2})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_depth", -1),
        ("max_depth", 1.5),
        ("max_depth", True),
        ("max_pages", 0),
        ("delay_ms", -1),
        ("deadline_ms", 0),
        ("deadline_ms", None),
        ("max_body_bytes", "10"),
        ("max_retries", 21),
        ("allow", "example.com"),
        ("allow", (1,)),
        ("user_agent", ""),
        ("user_agent", "two\nlines"),
        ("user_agent", "bot-ü"),
        ("obey_robots", "no"),
    ],
)
def test_impossible_setting_is_refused_with_its_name_and_value(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        CrawlSettings.from_dict({name: value})

    assert value in ("", "two\nlines") or repr(value) in str(caught.value)


def test_environment_survives_the_way_through_variables() -> None:
    environment = Environment(url="redis://h/1", namespace="n", out=Path("/x"), lease_ms=2000)

    assert Environment.from_variables(environment.to_variables()) == environment


def test_environment_without_variables_is_the_embedded_server_in_crawl_out() -> None:
    environment = Environment.from_variables({})

    assert environment == Environment()
    assert environment.url == "embedded://crawl-out/broker"


def test_output_directory_moves_the_embedded_server_too() -> None:
    environment = Environment.from_variables({"CRAWL_ACTORS_OUT": "/a b/50%"})

    assert environment.url == "embedded:///a%20b/50%25/broker"


@pytest.mark.parametrize("lease", ["x", "0", "-1", "1.5", "٣"])
def test_lease_that_is_no_number_is_refused(lease: str) -> None:
    with pytest.raises(ValueError, match="CRAWL_ACTORS_LEASE_MS"):
        Environment.from_variables({"CRAWL_ACTORS_LEASE_MS": lease})
