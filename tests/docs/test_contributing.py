"""What a contributor is told about checks and rooms is what tox and import-linter do."""

import configparser
import re
import tomllib

from tests.docs.pages import ROOT, code_names, page

PAGE = "docs/contributing.md"


def test_every_tox_environment_is_documented_and_no_other() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")

    documented = set().union(*(code_names(row[0]) for row in page(PAGE).rows("Check a change")))

    assert documented == set(re.split(r",\s*", tox["tox"]["env_list"].strip()))


def test_rooms_stand_on_the_lines_that_import_linter_checks() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each["id"] == "broker-layers"]

    documented = [code_names(row[0]) for row in page(PAGE).rows("Rooms")[1:]]

    checked = [set(re.findall(r"\w+", line)) for line in layers]
    there = [{name for name in line if _exists(name)} for line in checked]
    assert documented == [line for line in there if line]


def _exists(name: str) -> bool:
    place = ROOT / "dramatiq_streams" / name
    return place.is_dir() or place.with_suffix(".py").exists()
