"""The state diagram: every arrow names what performs it, and every script is on an arrow."""

import re

from dramatiq_streams.calls import assembled
from tests.docs.pages import page

PAGE = "docs/explanation/life-of-a-message.md"
COMMANDS = {"XADD", "XDEL", "XREADGROUP", "XTRIM"}
_ARROW = re.compile(
    r"^ +(?P<source>\S+) --> (?P<target>[^\s:]+)(?:: (?P<label>.+))?$", re.MULTILINE
)


def test_every_arrow_names_the_script_or_the_command_that_performs_it() -> None:
    performers = COMMANDS | set(assembled())

    assert [label for label in _labels() if not _words(label) & performers] == []


def test_every_arrow_is_read() -> None:
    (diagram,) = [block.text for block in page(PAGE).blocks if block.language == "mermaid"]

    assert len(_labels()) == diagram.count("-->")


def test_every_script_is_on_an_arrow() -> None:
    named = set().union(*map(_words, _labels()))

    # Those of claims have nothing to do with messages, and those of records their own diagram.
    of_others = ("claims_", "record_")
    of_messages = {name for name in assembled() if not name.startswith(of_others)}
    assert of_messages - named == set()


def test_every_state_is_explained() -> None:
    explained = {row[0] for row in page(PAGE).rows()[1:]}

    assert _states() - {"[*]"} == explained


def test_every_state_can_be_left_and_reached() -> None:
    arrows = [(match["source"], match["target"]) for match in _arrows()]
    moves = [(source, target) for source, target in arrows if source != target]

    assert {source for source, _ in moves} == {target for _, target in moves} == _states()


def _arrows() -> list[re.Match[str]]:
    (diagram,) = [block.text for block in page(PAGE).blocks if block.language == "mermaid"]
    return list(_ARROW.finditer(diagram))


def _labels() -> list[str]:
    return [match["label"] or "" for match in _arrows()]


def _words(label: str) -> set[str]:
    """What the label names outside of its explanation in brackets."""
    return set(re.findall(r"\w+", re.sub(r"\(.*?\)", "", label)))


def _states() -> set[str]:
    return {match[side] for match in _arrows() for side in ("source", "target")}
