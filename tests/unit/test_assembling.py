"""How the Lua scripts get their includes."""

from pathlib import Path

import pytest

from dramatiq_streams.assembling import assemble
from dramatiq_streams.calls import assembled
from dramatiq_streams.errors import StreamsError


def write(folder: Path, **files: str) -> Path:
    """Write scripts, and fragments when a name begins with an underscore."""
    (folder / "include").mkdir()
    for name, text in files.items():
        place = folder / "include" if name.startswith("_") else folder
        (place / f"{name.removeprefix('_')}.lua").write_text(text)
    return folder


def test_scripts_are_found_by_their_names(tmp_path: Path) -> None:
    folder = write(tmp_path, one="return 1\n", two="return 2\n", _part="unused\n")
    (folder / "notes.txt").write_text("no script")

    scripts = assemble(folder)

    assert scripts == {"one": "return 1\n", "two": "return 2\n"}


def test_include_is_pasted_where_it_is_named(tmp_path: Path) -> None:
    folder = write(
        tmp_path, one='-- head\n--- @include "part"\nreturn part\n', _part="local part = 1\n"
    )

    scripts = assemble(folder)

    assert scripts["one"] == "-- head\nlocal part = 1\nreturn part\n"


def test_include_of_an_include_comes_before_it(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        one='--- @include "outer"\nreturn 1\n',
        _outer='--- @include "inner"\nouter\n',
        _inner="inner\n",
    )

    scripts = assemble(folder)

    assert scripts["one"] == "inner\nouter\nreturn 1\n"


def test_what_is_included_twice_is_pasted_once(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        one='--- @include "left"\n--- @include "right"\n--- @include "both"\nreturn 1\n',
        _left='--- @include "both"\nleft\n',
        _right='--- @include "both"\nright\n',
        _both="both\n",
    )

    scripts = assemble(folder)

    assert scripts["one"] == "both\nleft\nright\nreturn 1\n"


def test_each_script_gets_its_own_copy(tmp_path: Path) -> None:
    include = '--- @include "part"\n'
    folder = write(tmp_path, one=include, two=include, _part="part\n")

    scripts = assemble(folder)

    assert scripts == {"one": "part\n", "two": "part\n"}


def test_missing_include_fails_with_the_trail(tmp_path: Path) -> None:
    folder = write(tmp_path, one='--- @include "a"\n', _a='--- @include "gone"\n')

    with pytest.raises(StreamsError, match=r"include is missing: one -> a -> gone$"):
        assemble(folder)


def test_include_that_goes_round_fails_with_the_trail(tmp_path: Path) -> None:
    folder = write(
        tmp_path, one='--- @include "a"\n', _a='--- @include "b"\n', _b='--- @include "a"\n'
    )

    with pytest.raises(StreamsError, match=r"goes round: one -> a -> b -> a$"):
        assemble(folder)


def test_fragment_that_includes_itself_fails(tmp_path: Path) -> None:
    folder = write(tmp_path, one='--- @include "a"\n', _a='--- @include "a"\n')

    with pytest.raises(StreamsError, match=r"goes round: one -> a -> a$"):
        assemble(folder)


@pytest.mark.parametrize(
    "line", ['-- --- @include "part"', 'local x = 1 --- @include "part"', '---@include "part"']
)
def test_only_a_whole_line_includes(tmp_path: Path, line: str) -> None:
    folder = write(tmp_path, one=f"{line}\n", _part="part\n")

    scripts = assemble(folder)

    assert scripts["one"] == f"{line}\n"


def test_backslashes_of_a_fragment_are_pasted_as_they_are(tmp_path: Path) -> None:
    folder = write(tmp_path, one='--- @include "part"\n', _part='local newline = "\\n\\1"\n')

    scripts = assemble(folder)

    assert scripts["one"] == 'local newline = "\\n\\1"\n'


def test_no_script_of_the_package_has_an_include_left() -> None:
    scripts = assembled()

    assert scripts
    assert not [name for name, text in scripts.items() if "@include" in text]


def test_scripts_of_the_package_cannot_be_changed_from_outside() -> None:
    assembled()["ack"] = "return 1"

    assert assembled()["ack"] != "return 1"
