"""What a page tells its reader to run, runs, and prints what the page says."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DocPage, all_pages, page
from tests.docs.runner import PageRun

RUNNABLE = [page for page in all_pages() if page.is_runnable]

# Pages mostly wait for workers to start and stop.
_AT_ONCE = 4


@pytest.fixture(scope="module")
def page_runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    """Every page that was selected, some of them running at the same time."""
    selected: list[Any] = [
        item.callspec.params["doc"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test_page_runs_as_it_says
    ]
    place = tmp_path_factory.mktemp("pages")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield {
            repr(doc): pool.submit(_perform, doc, place / str(number) / "reader")
            for number, doc in enumerate(selected)
        }


@pytest.mark.parametrize("doc", RUNNABLE, ids=repr)
@pytest.mark.timeout(180)
def test_page_runs_as_it_says(doc: DocPage, page_runs: dict[str, Future[None]]) -> None:
    page_runs[repr(doc)].result()


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial/first-crawl.md"])
def test_beginners_pages_are_among_those_that_run(name: str) -> None:
    marks = {block.mark.split("=")[0] for block in page(name).blocks}

    assert {"file", "run", "start", "output"} <= marks


@pytest.fixture
def perform_text(tmp_path: Path) -> Callable[[str], None]:
    """Runs a page with the given text."""

    def perform(text: str) -> None:
        path = tmp_path / "page.md"
        path.write_text(text, encoding="utf-8")
        _perform(DocPage(path), tmp_path / "reader", patience_s=0.1)

    return perform


def test_promised_output_that_does_not_come_fails_the_page(
    perform_text: Callable[[str], None],
) -> None:
    with pytest.raises(AssertionError, match="promises\ntwo"):
        perform_text("```sh run\necho one\n```\n\n```text output\ntwo\n```\n")


def test_output_in_another_order_fails_the_page(perform_text: Callable[[str], None]) -> None:
    with pytest.raises(AssertionError, match="promises\ntwo\none"):
        perform_text("```sh run\necho one; echo two\n```\n\n```text output\ntwo\none\n```\n")


def test_command_that_fails_fails_the_page(perform_text: Callable[[str], None]) -> None:
    with pytest.raises(AssertionError, match="ended with 1"):
        perform_text("```sh run\nfalse\n```\n")


def test_mark_that_nobody_knows_fails_the_page(perform_text: Callable[[str], None]) -> None:
    with pytest.raises(AssertionError, match="no such mark: 'rnu'"):
        perform_text("```sh rnu\ntrue\n```\n")


def _perform(doc: DocPage, directory: Path, *, patience_s: float = 45.0) -> None:
    with PageRun(doc, directory, patience_s=patience_s) as run:
        run.perform()
