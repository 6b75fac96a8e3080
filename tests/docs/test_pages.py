"""Pages are in order by themselves: links lead somewhere, Python can be read as Python."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ +(?P<title>.+)$", re.MULTILINE)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What `#...` may follow the page's name, as the usual renderers make it from headings."""
    titles = (match["title"].lower() for match in HEADING.finditer(prose(page)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def local_links(page: Path) -> Iterator[tuple[Path, str]]:
    for match in LINK.finditer(prose(page)):
        path, _, anchor = match["target"].partition("#")
        if not re.match(r"[a-z]+:", path):
            yield (page.parent / path if path else page), anchor


@each_page
def test_page_begins_with_its_title(page: Path) -> None:
    assert page.read_text(encoding="utf-8").startswith("# ")


@each_page
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    broken = [
        f"{target}#{anchor}"
        for target, anchor in local_links(page)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]

    assert broken == []


@each_page
def test_every_python_block_is_python(page: Path) -> None:
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        if match["language"] in {"python", "py"}:
            ast.parse(match["code"], filename=str(page))
