"""The header of a script is its contract, so it is read here as strictly as code."""

import inspect
import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

import pytest

from dramatiq_streams.claims.scripts import ClaimScripts
from dramatiq_streams.letter_scripts import LetterScripts
from dramatiq_streams.middleware.idempotency.scripts import RecordScripts
from dramatiq_streams.migration.scripts import MigrationScripts
from dramatiq_streams.order_scripts import OrderScripts
from dramatiq_streams.unique_scripts import UniqueScripts

PACKAGES = ("dramatiq_streams", "crawl_actors")
SCRIPT_LIMIT = 60
FRAGMENT_LIMIT = 20

HEADER = re.compile(r"\A--\[\[\n(?P<text>.*?)\n\]\]\n", re.DOTALL)
INCLUDE = re.compile(r'^--- @include "(?P<name>\w+)"$', re.MULTILINE)
SECTION = re.compile(r"^(KEYS|ARGV|RETURNS)\n", re.MULTILINE)
# Two spaces, the name, its type and what it is; the next lines of a description are deeper.
NAMED = re.compile(r"^ {2}(?P<name>[a-z_]+(?:\.\.\.)?|\.\.\.) {2,}(?P<type>\S+) {2,}\S.*$")
KEY_TYPES = {"stream", "hash", "zset", "set", "string", "list"}
ARGUMENT_TYPES = {"str", "string", "bytes", "int", "json", "url", "id"}
RETURNED = re.compile(r"^ {2}(int|str|string|bytes|array|json) {2,}\S.*$")
SCRIPT_INPUT = re.compile(r"\b(KEYS|ARGV)\b")
FORBIDDEN_COMMAND = re.compile(
    r"""redis\.p?call\(\s*["'](KEYS|SCAN|FLUSHALL|FLUSHDB)\b""", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class LuaFile:
    """A script or a fragment, named by package and file."""

    package: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.package}:{self.name}"

    @property
    def header(self) -> str:
        match = HEADER.match(self.text)
        assert match, f"{self} does not begin with a header in --[[ and ]]"
        return match["text"]

    @property
    def body(self) -> str:
        """All below the header and the includes."""
        return INCLUDE.sub("", HEADER.sub("", self.text)).strip()

    @property
    def code_lines(self) -> list[str]:
        lines = (line.strip() for line in HEADER.sub("", self.text).splitlines())
        return [line for line in lines if line and not line.startswith("--")]

    def section(self, name: str) -> list[str]:
        """The lines that belong to one section of the header; none when it is not there."""
        pieces = SECTION.split(self.header)
        sections = dict(zip(pieces[1::2], pieces[2::2], strict=True))
        return sections.get(name, "").splitlines()

    def named(self, section: str) -> list[re.Match[str]]:
        """The names that a section defines, each with its type."""
        lines = [line for line in self.section(section) if not line.startswith("   ")]
        matches = [NAMED.match(line) for line in lines]
        unread = [line for line, match in zip(lines, matches, strict=True) if match is None]
        assert not unread, f"{self}, {section}: not `  name  type  description`: {unread}"
        return [match for match in matches if match is not None]


def lua_files(folder: str) -> list[LuaFile]:
    found = []
    for package in PACKAGES:
        place = resources.files(package).joinpath(folder)
        if place.is_dir():
            found += [_read(package, file) for file in place.iterdir() if file.is_file()]
    return sorted(found, key=str)


def _read(package: str, file: Traversable) -> LuaFile:
    assert file.name.endswith(".lua"), f"{package}: {file.name} is no Lua file"
    return LuaFile(package, file.name.removesuffix(".lua"), file.read_text(encoding="utf-8"))


SCRIPTS = lua_files("lua")
FRAGMENTS = lua_files("lua/include")

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=str)
each_fragment = pytest.mark.parametrize("fragment", FRAGMENTS, ids=str)
each_file = pytest.mark.parametrize("file", SCRIPTS + FRAGMENTS, ids=str)


class EveryScript(
    MigrationScripts, LetterScripts, OrderScripts, UniqueScripts, ClaimScripts, RecordScripts
):
    """Those of every subject."""


def test_each_script_of_the_broker_has_a_method() -> None:
    names = {script.name for script in SCRIPTS if script.package == "dramatiq_streams"}

    assert names
    assert names <= set(dir(EveryScript))


@each_script
def test_header_begins_with_a_sentence(script: LuaFile) -> None:
    first = script.header.split("\n\n")[0]

    assert re.match(r"[A-Z].*[.]$", first, re.DOTALL), f"{script}: {first!r}"


@each_script
def test_header_names_keys_and_arguments_with_their_types(script: LuaFile) -> None:
    keys, arguments = script.named("KEYS"), script.named("ARGV")

    assert keys, f"{script} names no key"
    assert {match["type"] for match in keys} <= KEY_TYPES
    assert {match["type"] for match in arguments} <= ARGUMENT_TYPES


@each_script
def test_header_says_what_is_returned(script: LuaFile) -> None:
    lines = script.section("RETURNS")

    assert lines
    assert RETURNED.match(lines[0]), f"{script}: {lines[0]!r}"


@each_script
def test_only_the_last_key_or_argument_is_variadic(script: LuaFile) -> None:
    for section in ("KEYS", "ARGV"):
        names = [match["name"] for match in script.named(section)]

        assert not [name for name in names[:-1] if name.endswith("...")]


@pytest.mark.parametrize(
    "script", [script for script in SCRIPTS if script.package == "dramatiq_streams"], ids=str
)
def test_header_names_are_the_parameters_of_the_method(script: LuaFile) -> None:
    method = getattr(EveryScript, script.name)
    _self, *parameters = inspect.signature(method).parameters.values()

    documented = [
        match["name"].removesuffix("...")
        for section in ("KEYS", "ARGV")
        for match in script.named(section)
    ]

    assert [parameter.name for parameter in parameters] == documented
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}


@each_script
def test_keys_and_arguments_are_named_in_the_first_lines_only(script: LuaFile) -> None:
    first, _blank, rest = script.body.partition("\n\n")

    used = {match[1] for match in SCRIPT_INPUT.finditer(first)}

    assert first.startswith("local "), f"{script} does not begin by naming its keys"
    assert used == {name for name in ("KEYS", "ARGV") if script.named(name)}
    assert not SCRIPT_INPUT.search(_without_comments(rest)), f"{script}: used again further down"


def _without_comments(code: str) -> str:
    return re.sub(r"--.*", "", code)


@each_fragment
def test_fragment_is_one_function_named_like_its_file(fragment: LuaFile) -> None:
    functions = re.findall(r"^(?:local )?function (\w+)", fragment.body, re.MULTILINE)
    top_level = re.findall(r"^(?!local function |end$|--|\s)\S.*", fragment.body, re.MULTILINE)

    assert functions == [fragment.name]
    assert top_level == []


@each_fragment
def test_fragment_reads_neither_keys_nor_arguments(fragment: LuaFile) -> None:
    assert not SCRIPT_INPUT.search(_without_comments(fragment.body))


@each_file
def test_every_include_exists(file: LuaFile) -> None:
    fragments = {fragment.name for fragment in FRAGMENTS if fragment.package == file.package}

    assert set(INCLUDE.findall(file.text)) <= fragments


@each_file
def test_nothing_walks_or_empties_the_keyspace(file: LuaFile) -> None:
    assert not FORBIDDEN_COMMAND.search(file.text)


@each_script
def test_script_is_short(script: LuaFile) -> None:
    assert len(script.code_lines) <= SCRIPT_LIMIT


@each_fragment
def test_fragment_is_short(fragment: LuaFile) -> None:
    assert len(fragment.code_lines) <= FRAGMENT_LIMIT
