"""What the README says at first sight."""

import re
import shlex

from tests.docs.pages import ROOT, page

MOST_QUICKSTART_LINES = 20


def test_quickstart_is_short() -> None:
    (code,) = [block.text for block in page("README.md").blocks if block.language == "python"]

    lines = [line for line in code.splitlines() if line.strip()]

    assert len(lines) <= MOST_QUICKSTART_LINES


def test_two_commands_to_paste_come_first() -> None:
    demo, suite, *_ = [block.text for block in page("README.md").blocks if block.language == "sh"]

    assert demo == (
        "python3 -m venv .venv && .venv/bin/pip install --quiet '.[crawl]'"
        " && .venv/bin/crawl-actors demo\n"
    )
    assert suite == (
        "python3 -m venv .venv && .venv/bin/pip install --quiet tox && .venv/bin/tox\n"
    )


def test_the_suites_command_does_what_continuous_integration_does() -> None:
    _, suite, *_ = [block.text for block in page("README.md").blocks if block.language == "sh"]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    told = [_essence(step) for step in suite.split("&&")]
    done = [_essence(line) for line in script.splitlines() if "$scratch/venv" in line]

    assert done == told == [["venv"], ["pip", "tox"], ["tox"]]


def _essence(step: str) -> list[str]:
    """The program of a step and what it is given, without places, options and version bounds."""
    step = re.split(r" (?:2>&1|\|)", step)[0]
    words = [word for word in shlex.split(step) if not word.startswith("-") and "=" not in word[:2]]
    words = [re.split(r"[<>=]", word)[0].rpartition("/")[2] for word in words]
    noise = {"python3", "$python", "python", "timeout", "4800", "install", ".venv"}
    kept = [word for word in words if word not in noise]
    return kept[:1] if kept[0] == "venv" else kept
