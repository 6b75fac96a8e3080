"""Pages are in order by themselves: titles, links, Python, and one sentence a line."""

import ast
import re

import pytest

from tests.docs.pages import DOCS, ROOT, DocPage, all_pages

PAGES = all_pages()
HOW_TO = [page for page in PAGES if page.path.parent.name == "how-to"]
FOLDERS = {"tutorial", "how-to", "reference", "explanation"}

# The end of a sentence and the beginning of the next; abbreviations are not used in these pages.
_TWO_SENTENCES = re.compile(r"[a-z0-9)*][.!?]\)?(?:\*\*)? +[*`\[]*[A-Z]")

each_page = pytest.mark.parametrize("page", PAGES, ids=repr)


@each_page
def test_page_begins_with_its_title(page: DocPage) -> None:
    assert page.text.startswith("# ")


@each_page
def test_every_link_inside_the_repository_leads_somewhere(page: DocPage) -> None:
    broken = [target for target in page.links if not _leads_somewhere(page, target)]

    assert broken == []


@each_page
def test_every_python_block_is_python(page: DocPage) -> None:
    for block in page.blocks:
        if block.language == "python":
            ast.parse(block.text, filename=repr(page))


@each_page
def test_every_line_is_one_sentence(page: DocPage) -> None:
    # The bold title of an item, or its number, is no sentence.
    lines = [re.sub(r"^(- \*\*[^*]+\*\*|\d+\.) ", "- ", line) for line in page.sentences]

    assert [line for line in lines if _TWO_SENTENCES.search(line)] == []


@pytest.mark.parametrize("page", HOW_TO, ids=repr)
def test_how_to_page_is_neither_a_note_nor_a_book(page: DocPage) -> None:
    assert 20 <= len(page.text.splitlines()) <= 140


def test_every_page_is_in_the_table_of_contents() -> None:
    contents = DocPage(DOCS / "README.md")

    listed = {(DOCS / target).resolve() for target in contents.links if ":" not in target}

    assert {page.path for page in PAGES if DOCS in page.path.parents} - {contents.path} <= listed


def test_no_page_is_in_a_folder_of_another_kind() -> None:
    folders = {page.path.parent.name for page in PAGES if page.path.parent not in (ROOT, DOCS)}

    assert folders == FOLDERS


def _leads_somewhere(page: DocPage, target: str) -> bool:
    if re.match(r"[a-z]+:", target):
        return True
    path, _, anchor = target.partition("#")
    found = page.path.parent / path if path else page.path
    return found.exists() and (not anchor or anchor in DocPage(found).anchors)
