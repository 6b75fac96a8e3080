"""The documentation as data: its pages, their code blocks, links, headings and prose."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(
    r"^```(?P<language>\w+)(?: (?P<mark>[^\n]+))?\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
_INLINE_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One code block; *mark* is what follows the language, see `runner`."""

    language: str
    mark: str
    text: str


class DocPage:
    """One Markdown file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")

    def __repr__(self) -> str:
        return str(self.path.relative_to(ROOT) if ROOT in self.path.parents else self.path.name)

    @property
    def blocks(self) -> list[Block]:
        """Every code block, in order."""
        return [
            Block(match["language"], match["mark"] or "", match["text"])
            for match in _FENCE.finditer(self.text)
        ]

    @property
    def is_runnable(self) -> bool:
        """Whether some of its blocks are to be run."""
        return any(block.mark for block in self.blocks)

    @cached_property
    def prose(self) -> str:
        """The text without its code blocks."""
        return _FENCE.sub("", self.text)

    @property
    def links(self) -> list[str]:
        """Every link's target, as it is written."""
        return [match["target"] for match in _LINK.finditer(_INLINE_CODE.sub("", self.prose))]

    @property
    def anchors(self) -> set[str]:
        """What `#` can lead to, as GitHub makes it from the headings."""
        return {_slug(match[1]) for match in _HEADING.finditer(self.prose)}

    @property
    def sentences(self) -> list[str]:
        """The lines of running text: no headings, no table rows; code in them is a word."""
        lines = (line.strip() for line in self.prose.splitlines())
        return [_INLINE_CODE.sub("code", line) for line in lines if line and line[0] not in "#|<"]

    def rows(self, heading: str = "") -> list[list[str]]:
        """The cells of all table rows, or of those below *heading*; rules are left out."""
        text = self.section(heading) if heading else self.prose
        cells = [[cell.strip() for cell in _cells(match[1])] for match in _ROW.finditer(text)]
        return [row for row in cells if not set("".join(row)) <= set("-: ")]

    def section(self, heading: str) -> str:
        """The text between *heading* and the next heading of any level."""
        pattern = rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)"
        match = re.search(pattern, self.prose, re.DOTALL | re.MULTILINE)
        assert match, f"{self!r} has no heading {heading!r}"
        return match[1]


def page(name: str) -> DocPage:
    """The page *name*, relative to the repository."""
    return DocPage(ROOT / name)


def all_pages() -> list[DocPage]:
    """Every page of the documentation, README and changelog included."""
    paths = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
    return [DocPage(path) for path in paths]


def code_names(text: str) -> set[str]:
    """What stands between back-ticks in *text*."""
    return {name.strip("`") for name in _INLINE_CODE.findall(text)}


def _cells(row: str) -> list[str]:
    return re.split(r"(?<!\\)\|", row)


def _slug(heading: str) -> str:
    words = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return words.replace(" ", "-")
