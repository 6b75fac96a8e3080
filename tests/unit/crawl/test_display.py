import logging
import re
import sys
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from crawl_actors.cli import CurrentStderr
from crawl_actors.frontier import Progress
from crawl_actors.running.display import Display, describe, finished_pages

PROGRESS = Progress(
    is_known=True, seen=9, open=3, counts={"ok": 4, "failed": 1, "redirect": 1, "bytes": 5000}
)


def test_progress_is_one_line_without_empty_parts() -> None:
    line = describe(PROGRESS, rate=12.34)

    assert line == "4 pages · 1 redirect · 1 failed · 3 to do · 12.3 a second"


def test_one_page_is_no_plural_and_no_page_is() -> None:
    one = replace(PROGRESS, counts={"ok": 1, "redirect": 2, "excluded": 1})

    assert describe(one, rate=1) == "1 page · 2 redirects · 1 excluded · 3 to do · 1.0 a second"
    assert describe(replace(one, counts={}), rate=1).startswith("0 pages · 3 to do")


def test_bytes_are_no_pages() -> None:
    assert finished_pages(PROGRESS) == 6


def test_terminal_gets_a_live_line_and_a_file_does_not() -> None:
    terminal, file = StringIO(), StringIO()

    for output, is_terminal in ((terminal, True), (file, False)):
        with Display(Console(file=output, force_terminal=is_terminal, width=100)) as display:
            display.show(PROGRESS, rate=1.0, note="waiting")

    assert "4 pages" in terminal.getvalue()
    assert "waiting" in terminal.getvalue()
    assert file.getvalue() == ""


def test_warning_beside_a_live_line_begins_on_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    record = logging.LogRecord("x", logging.WARNING, "", 0, "starting them again", None, None)

    with Display(Console(file=terminal, force_terminal=True, width=100)) as display:
        display.show(PROGRESS, rate=1.0)
        CurrentStderr().handle(record)

    before = terminal.getvalue().split("starting them again")[0]
    assert not re.search(r"second[^\n\r]*$", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", before))
