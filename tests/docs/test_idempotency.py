"""The states of an idempotency key: the diagram is that of the code."""

import re

from dramatiq_streams.calls import assembled
from dramatiq_streams.middleware.idempotency.records import State
from tests.docs.pages import page

PAGE = "docs/explanation/idempotency.md"
_ARROW = re.compile(r"^ +(?P<source>\S+) --> (?P<target>[^\s:]+): (?P<name>\w+)", re.MULTILINE)


def _arrows() -> list[tuple[str, str, str]]:
    (diagram,) = [block.text for block in page(PAGE).blocks if block.language == "mermaid"]
    found = [
        (match["source"], match["target"], match["name"]) for match in _ARROW.finditer(diagram)
    ]
    assert len(found) == diagram.count("-->")
    return found


def test_states_are_those_of_a_record() -> None:
    ends = {end for source, target, _ in _arrows() for end in (source, target)}

    assert ends == {"[*]", *(state.value.capitalize() for state in State)}


def test_every_script_of_records_is_on_an_arrow_and_no_other() -> None:
    of_records = {name for name in assembled() if name.startswith("record_")}

    assert {name for _, _, name in _arrows()} == {*of_records, "PEXPIRE"}
