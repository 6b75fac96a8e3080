"""The reference of the command says what the command and its JSON say."""

import argparse
import re
from collections.abc import Iterator
from dataclasses import fields

import pytest

from dramatiq_streams.browsing import State, StoredMessage
from dramatiq_streams.checks import Finding
from dramatiq_streams.cli import COMMANDS, stats
from dramatiq_streams.cli.lock_search import Kind, Lock
from dramatiq_streams.cli.place import NAMESPACE_VARIABLE, URL_VARIABLE
from dramatiq_streams.cli.views import letter_view, message_view
from dramatiq_streams.dead_letters import Reason
from dramatiq_streams.diagnosis import Diagnosis
from dramatiq_streams.inspector import LaneState, QueueState, WorkerState
from dramatiq_streams.letters import Letter
from dramatiq_streams.reservations import Held
from tests.docs.pages import page

PAGE = "docs/reference/dramatiq-streams.md"
_FILTERS = {"--actor", "--reason", "--id", "--older-than", "--newer-than", "--text"}


def leaves(
    parser: argparse.ArgumentParser, name: str
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Each command that does something, with its parser."""
    choices = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not choices:
        yield name, parser
    for each in choices:
        for action, subparser in (each or {}).items():
            yield from leaves(subparser, f"{name} {action}")


def commands() -> dict[str, argparse.ArgumentParser]:
    root = argparse.ArgumentParser("dramatiq-streams")
    subparsers = root.add_subparsers()
    for command in COMMANDS:
        command.add_parser(subparsers)
    return dict(leaves(root, "dramatiq-streams"))


def options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {
        option: action
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--")
    }


@pytest.mark.parametrize("name", commands())
def test_every_option_is_documented_and_no_other(name: str) -> None:
    everywhere = _names("Everywhere")

    documented = _names(f"`{name}`")

    own = set(options(commands()[name])) - everywhere
    assert documented == own - (_FILTERS if " dlq " in name else set())


@pytest.mark.parametrize("name", commands())
def test_documented_defaults_are_those_of_the_parser(name: str) -> None:
    documented = {row[0].strip("`"): row[1].strip("`") for row in page(PAGE).rows(f"`{name}`")}

    for option, action in options(commands()[name]).items():
        told = re.search(r"\(default: %\(default\)s\)", action.help or "")
        if option in documented and told:
            assert documented[option] == str(action.default)


def test_every_command_is_documented_and_no_other() -> None:
    headings = re.findall(r"^## `(dramatiq-streams .+)`$", page(PAGE).text, re.MULTILINE)

    assert headings == list(commands())


def test_filters_of_dead_letters_are_documented() -> None:
    assert _names("Dead letters") == _FILTERS


def test_environment_is_that_of_the_code() -> None:
    assert f"`${URL_VARIABLE}`" in page(PAGE).text
    assert f"`${NAMESPACE_VARIABLE}`" in page(PAGE).text


def test_fields_of_a_worker_are_those_of_the_code() -> None:
    assert _fields("worker") == [field.name for field in fields(WorkerState)]


def test_fields_of_queues_and_lanes_are_those_of_the_code() -> None:
    lane = LaneState("default", 0, None, 0, None, None)
    state = QueueState("q", 0, None, (lane,), 0, None, 0, None, 0, 0, 0)

    view = stats._view(state, state)

    assert _fields("queue") == list(view)
    assert _fields("lane") == list(view["lanes"][0])


@pytest.mark.parametrize("body", [b"", b"{}"])
def test_fields_of_messages_and_dead_letters_are_those_of_the_code(body: bytes) -> None:
    message = StoredMessage("q", State.READY, "default", "1-0", body)
    letter = Letter.parse("q", b"1-0", {b"m": body})

    assert _fields("message") == list(message_view(message, now_ms=0, is_cancelled=False))
    assert _fields("dead letter") == list(letter_view(letter, now_ms=0))


def test_fields_of_a_lock_are_those_of_the_code() -> None:
    lock = Lock(Kind.UNIQUE, "a:k", "m", "c", None, Held("q", "a:k", "m", 1))

    assert _fields("lock") == list(lock.view(now_ms=0))


def test_fields_of_a_diagnosis_are_those_of_the_code() -> None:
    text = page(PAGE).section("`dramatiq-streams doctor`")

    names = [field.name for kind in (Diagnosis, Finding) for field in fields(kind)]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_reasons_of_death_are_those_of_the_code() -> None:
    rows = page("docs/how-to/look-at-dead-letters.md").rows()[1:]

    assert {row[0].strip("`") for row in rows} == set(Reason)


def _names(heading: str) -> set[str]:
    return {row[0].strip("`") for row in page(PAGE).rows(heading) if row[0].startswith("`--")}


def _fields(thing: str) -> list[str]:
    return [row[0].strip("`") for row in page(PAGE).rows(f"Fields of a {thing}")[1:]]
