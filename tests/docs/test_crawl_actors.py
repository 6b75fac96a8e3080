"""The reference of the command says what the command says of itself."""

import dataclasses
import json
import re
import subprocess
import sys
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from crawl_actors.pages import RETRYABLE_ERRORS, RETRYABLE_STATUSES, Page
from crawl_actors.settings import CrawlSettings, Environment
from crawl_actors.storage import PageRecord, SqliteStorage
from crawl_actors.urls import MAX_URL_LENGTH
from crawl_actors.visiting import MAX_HOPS
from tests.docs.pages import page

PAGE = "docs/reference/crawl-actors.md"
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


@pytest.mark.parametrize("command", ["run", "demo"])
def test_every_option_is_documented_and_no_other(command: str) -> None:
    documented = {row[0].strip("`") for row in page(PAGE).rows(f"`crawl-actors {command}`")}

    options = set(_OPTION.findall(_help(command)))

    assert {name for name in documented if name.startswith("--")} == options


@pytest.mark.parametrize("command", ["run", "demo"])
def test_documented_numbers_are_the_defaults(command: str) -> None:
    documented = {row[0].strip("`"): row[1] for row in page(PAGE).rows(f"`crawl-actors {command}`")}
    text = " ".join(_help(command).split())

    defaults = dict(re.findall(r"(--[a-z-]+) [A-Z]+ (?:(?!--)[^()])*\(default: ([0-9.]+)\)", text))

    assert defaults
    assert {name: documented[name] for name in defaults} == defaults


def test_every_command_is_documented() -> None:
    commands = set(re.findall(r"^ {4}([a-z-]+) {2,}", _help(), re.MULTILINE))
    headings = set(re.findall(r"^## (.+)$", page(PAGE).text, re.MULTILINE))

    assert commands
    assert {f"`crawl-actors {name}`" for name in commands} <= headings


def test_exit_codes_are_those_of_the_help() -> None:
    (codes,) = re.findall(r"exit codes: (.*)", _help("run"))
    documented = {row[0] for row in page(PAGE).rows("`crawl-actors run`")}

    assert set(re.findall(r"\d+", codes)) == {name for name in documented if name.isdigit()}


def test_fields_of_a_page_are_those_of_the_export(tmp_path: Path) -> None:
    export = tmp_path / "pages.jsonl"
    with closing(SqliteStorage(tmp_path / "pages.sqlite")) as storage:
        storage.save(PageRecord(url="http://a.example/", crawl_id="crawl", depth=0))
        storage.export_jsonl(export, "crawl")

    fields = list(json.loads(export.read_text(encoding="utf-8")))

    assert [row[0].strip("`") for row in page(PAGE).rows("Fields of a page")[1:]] == fields


def test_errors_of_a_request_are_documented_as_the_code_tells_them() -> None:
    documented = {row[0]: row[2] for row in page(PAGE).rows("Errors of a page")[1:]}
    told = dict(re.findall(r"\| (`\w+`) +\| [^|]+ \| (yes|no) ", Page.__doc__ or ""))

    assert told
    assert {name: documented.get(name) for name in told} == told
    assert {f"`{name}`" for name in RETRYABLE_ERRORS} <= set(documented)


def test_statuses_and_limits_are_those_of_the_code() -> None:
    text = page(PAGE).text

    (statuses,) = re.findall(r"The statuses ([\d, and]+) are tried again", text)

    assert set(map(int, re.findall(r"\d+", statuses))) == RETRYABLE_STATUSES
    assert f"longer than {MAX_URL_LENGTH:,} characters" in text
    assert f"more than {MAX_HOPS} in a row" in text


def test_settings_of_a_crawl_are_documented_with_their_defaults() -> None:
    fields = dataclasses.fields(CrawlSettings)
    documented = {
        row[0].strip("`"): row[1].strip("`") for row in page(PAGE).rows("Settings of crawl")[1:]
    }

    assert list(documented) == [field.name for field in fields]
    documented.pop("user_agent")
    assert documented == {
        field.name: repr(field.default) for field in fields if field.name != "user_agent"
    }


def test_environment_is_that_of_the_code() -> None:
    rows = page(PAGE).rows("Environment")[1:]

    documented = {row[0].strip("`"): row[1].strip("`") for row in rows}

    assert documented == Environment.from_variables({}).to_variables()


@cache
def _help(*command: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "crawl_actors", *command, "--help"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout
