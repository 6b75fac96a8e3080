"""The table of faults: each names a test, and the test is there."""

import re

from tests.docs.pages import ROOT, code_names, page

PAGE = "docs/explanation/faults.md"
_TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)


def test_every_fault_names_a_test_that_exists() -> None:
    named = [code_names(row[-1]) for row in page(PAGE).rows() if row[-1] != "shown by"]
    folder = ROOT / "tests" / "faults"
    existing = {
        name for file in folder.glob("test_*.py") for name in _TEST.findall(file.read_text("utf-8"))
    }

    assert [names for names in named if len(names) != 1] == []
    assert set().union(*named) - existing == set()


def test_matrix_has_as_many_points_as_are_promised() -> None:
    matrix = (ROOT / "tests" / "faults" / "test_crash_matrix.py").read_text("utf-8")
    points = re.findall(r"^    \"[^\"]+\": Point\(", matrix, re.MULTILINE)

    assert "any of twenty points" in page(PAGE).text
    assert len(points) >= 20
