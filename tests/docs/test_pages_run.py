"""What a page tells its reader to run, runs, and prints what the page says."""

from pathlib import Path

import pytest

from tests.docs.pages import DocPage, all_pages, page
from tests.docs.runner import PageRun

RUNNABLE = [page for page in all_pages() if page.is_runnable]


@pytest.mark.parametrize("doc", RUNNABLE, ids=repr)
@pytest.mark.timeout(120)
def test_page_runs_as_it_says(doc: DocPage, tmp_path: Path) -> None:
    directory = tmp_path / "reader"
    directory.mkdir()

    with PageRun(doc, directory) as run:
        run.perform()


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial/first-crawl.md"])
def test_beginners_pages_are_among_those_that_run(name: str) -> None:
    marks = {block.mark.split("=")[0] for block in page(name).blocks}

    assert {"file", "run", "start", "output"} <= marks


def test_promised_output_that_does_not_come_fails_the_page(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("```sh run\necho one\n```\n\n```text output\ntwo\n```\n")
    (tmp_path / "reader").mkdir()

    with (
        pytest.MonkeyPatch.context() as patch,
        PageRun(_unrooted(path), tmp_path / "reader") as run,
        pytest.raises(AssertionError, match="promises\ntwo"),
    ):
        patch.setattr("tests.docs.runner._OUTPUT_S", 0.1)
        run.perform()


def test_command_that_fails_fails_the_page(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("```sh run\nfalse\n```\n")
    (tmp_path / "reader").mkdir()

    with (
        PageRun(_unrooted(path), tmp_path / "reader") as run,
        pytest.raises(AssertionError, match="ended with 1"),
    ):
        run.perform()


def _unrooted(path: Path) -> DocPage:
    class Unrooted(DocPage):
        def __repr__(self) -> str:
            return self.path.name

    return Unrooted(path)
