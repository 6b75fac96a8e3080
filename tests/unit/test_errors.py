import inspect
import re

import dramatiq
import pytest
from dramatiq.errors import BrokerConnectionError, DramatiqError
from dramatiq.message import Message
from dramatiq.threading import Interrupt

import dramatiq_streams
from dramatiq_streams import errors
from dramatiq_streams.errors import InvalidOption, PartlyEnqueued, StreamsError, UnknownLane

DRAWN = re.compile(
    r"^    (?P<indent>[│ ├└─]*)(?P<name>\w+)(?: +\(also (?P<also>\w+)\))?$", re.MULTILINE
)
CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and value.__module__ == errors.__name__
}
#: Their constructors take the messages that they are about.
OF_MESSAGES = {
    "EnqueueUnconfirmed",
    "NotEnqueued",
    "NotReplicated",
    "PartlyEnqueued",
    "SpoolFull",
}


def drawn_tree() -> dict[str, set[str]]:
    """The parents of each error, as the module's docstring draws them."""
    parents: dict[str, set[str]] = {}
    trail: list[str] = []
    for match in DRAWN.finditer(errors.__doc__ or ""):
        depth = len(match["indent"]) // 4
        trail[depth:] = [match["name"]]
        parents[match["name"]] = {*trail[depth - 1 : depth], *filter(None, [match["also"]])}
    return parents


def test_drawn_tree_is_the_tree_of_classes() -> None:
    drawn = drawn_tree()
    actual = {
        name: {parent.__name__ for parent in error.__bases__} for name, error in CLASSES.items()
    }

    assert drawn.pop("DramatiqError") == set()
    assert drawn.pop("Interrupt") == set()
    assert drawn == actual


def test_roots_are_dramatiqs() -> None:
    interrupts = {name for name, error in CLASSES.items() if issubclass(error, Interrupt)}

    assert StreamsError.__bases__ == (DramatiqError,)
    assert interrupts == {"LeaseLost"}
    assert all(issubclass(CLASSES[name], StreamsError) for name in CLASSES.keys() - interrupts)


def test_every_error_is_public() -> None:
    assert set(CLASSES) <= set(dramatiq_streams.__all__)


@pytest.mark.parametrize("name", sorted(set(CLASSES) - OF_MESSAGES))
def test_first_line_of_the_docstring_is_the_default_message(name: str) -> None:
    error = CLASSES[name]

    assert str(error()) == inspect.cleandoc(error.__doc__ or "")
    assert "\n" not in str(error())


def test_message_replaces_the_default() -> None:
    assert str(StreamsError("what happened")) == "what happened"


def test_error_of_an_option_names_option_value_and_what_is_allowed() -> None:
    error = UnknownLane.of("lane", "nope", "one of 'a'")

    assert type(error) is UnknownLane
    assert str(error) == "lane='nope' is not possible: lane must be one of 'a'."
    assert isinstance(InvalidOption.of("x", 1, "2"), ValueError)


def test_partly_enqueued_says_how_many_and_keeps_them_apart() -> None:
    messages: list[Message] = [
        dramatiq.Message("queue", "actor", (number,), {}, {}) for number in range(6)
    ]

    error = PartlyEnqueued(
        OSError("broken"),
        enqueued=messages[:1],
        unconfirmed=messages[1:3],
        unsent=messages[3:],
    )

    assert str(error) == "1 messages were enqueued, 2 perhaps and 3 not: broken"
    assert (error.enqueued, error.unconfirmed) == (messages[:1], messages[1:3])
    assert error.unsent == messages[3:]
    assert isinstance(error, BrokerConnectionError)
