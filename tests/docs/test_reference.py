"""The reference says what there is: no name, key, option or script more, and none less."""

import inspect
import re
from collections.abc import Callable
from importlib import resources

import pytest
from dramatiq.errors import DramatiqError

import crawl_actors
import dramatiq_streams
from dramatiq_streams import StreamsBroker, embedded, errors, keys, lanes, middleware, options
from dramatiq_streams.embedded import EmbeddedConnection
from dramatiq_streams.middleware import Idempotency
from dramatiq_streams.queues import FORWARD_LIMIT
from dramatiq_streams.urls import (
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_SOCKET_TIMEOUT,
    LONGEST_SOCKET_TIMEOUT,
)
from tests.docs.pages import DocPage, code_names, page

OPTIONS = "docs/reference/options.md"
SCRIPTS = "docs/reference/scripts.md"
_HEADER = re.compile(r"\A--\[\[\n(.*?)\n\n", re.DOTALL)


def test_every_public_name_is_documented_and_no_other() -> None:
    rows = page("docs/reference/public-names.md").rows("`dramatiq_streams`")

    assert _names(rows) == set(dramatiq_streams.__all__)


def test_every_public_name_of_the_crawler_is_documented() -> None:
    rows = page("docs/reference/public-names.md").rows("`crawl_actors`")

    assert _names(rows) == set(crawl_actors.__all__)


def test_every_public_name_of_the_embedded_server_is_documented() -> None:
    rows = page("docs/reference/public-names.md").rows("`dramatiq_streams.embedded`")

    assert {_without_arguments(name) for name in _names(rows)} == set(embedded.__all__)


def test_every_documented_member_of_the_broker_is_there_with_this_signature() -> None:
    rows = page("docs/reference/public-names.md").rows("`StreamsBroker`")[1:]

    documented = {row[0].strip("`") for row in rows}

    actual = {_written(name) for name in map(_without_arguments, documented)}
    assert documented == actual


def test_every_public_member_that_dramatiq_does_not_have_is_documented() -> None:
    rows = page("docs/reference/public-names.md").rows("`StreamsBroker`")
    own = {name for name in vars(StreamsBroker) if not name.startswith("_")}

    new = {name for name in own if not hasattr(StreamsBroker.__mro__[1], name)}

    assert new <= {_without_arguments(name) for name in _names(rows)}


def test_every_error_is_documented_where_the_tree_is_the_same() -> None:
    doc = page("docs/reference/errors.md")
    (tree,) = [block.text for block in doc.blocks]
    defined = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, DramatiqError) and "streams" in str(value)
    }

    documented = _names(doc.rows()) - {"ConnectionFailed", "ConnectionClosed"}

    assert documented == defined
    assert _words(tree) <= _words(errors.__doc__ or "")


def test_keys_are_those_of_the_code() -> None:
    documented = page("docs/reference/keys.md").rows()

    assert documented == _docstring_rows(keys.__doc__)
    assert len(documented) > 1


def test_example_of_a_key_is_right() -> None:
    made = keys.queue_keys(options.DEFAULT_NAMESPACE, "default", tuple(lanes.DEFAULT_LANES))

    assert f"`{made.lanes[1]}`" in page("docs/reference/keys.md").text
    assert {keys.GROUP, keys.RELEASED} <= code_names(page("docs/reference/keys.md").text)


def test_every_option_of_the_broker_is_documented_with_its_default() -> None:
    parameters = inspect.signature(StreamsBroker).parameters.values()
    actual = {
        parameter.name: repr(parameter.default)
        for parameter in parameters
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }

    assert _defaults(page(OPTIONS), "Broker") == {
        name: default.replace("'", '"') for name, default in actual.items()
    }
    assert repr(dict(lanes.DEFAULT_LANES)).replace("'", '"') in page(OPTIONS).text


def test_every_option_of_the_readme_is_one_of_the_broker() -> None:
    documented = _names(page("README.md").rows("Options"))

    assert documented == set(_defaults(page(OPTIONS), "Broker"))


def test_connection_defaults_are_those_of_the_code() -> None:
    assert _defaults(page(OPTIONS), "Connection") == {
        "socket_timeout": repr(DEFAULT_SOCKET_TIMEOUT),
        "socket_connect_timeout": repr(DEFAULT_CONNECT_TIMEOUT),
    }
    assert f"at most {LONGEST_SOCKET_TIMEOUT:,}," in page(OPTIONS).section("Connection")


def test_options_of_an_embedded_server_are_those_of_the_code() -> None:
    parameters = inspect.signature(EmbeddedConnection.__init__).parameters.values()
    actual = {
        parameter.name: repr(parameter.default)
        for parameter in parameters
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }

    assert _defaults(page(OPTIONS), "Embedded server") == actual


@pytest.mark.parametrize(
    ("option", "column", "offset"),
    [
        (option, column, offset)
        for option in ("lease", "disconnect_grace", "max_deliveries")
        for column, offset in ((1, -1), (2, 1))
    ],
)
def test_documented_limits_are_the_limits(option: str, column: int, offset: int) -> None:
    row = next(row for row in page(OPTIONS).rows("At the extremes") if row[0] == f"`{option}`")
    limit = int(row[column].replace(",", ""))
    make: Callable[..., StreamsBroker] = StreamsBroker

    make(**{option: limit})

    with pytest.raises(dramatiq_streams.InvalidOption, match=option):
        make(**{option: limit + offset})


def test_actor_options_are_known_to_the_broker() -> None:
    documented = _names(page(OPTIONS).rows("Actor"))
    of_dramatiq = {"priority", "queue_name"}

    assert documented - of_dramatiq <= StreamsBroker().actor_options


@pytest.mark.parametrize("package", ["dramatiq_streams", "crawl_actors"])
def test_every_script_is_documented_with_the_first_sentence_of_its_header(package: str) -> None:
    documented = {row[0].strip("`"): row[1] for row in page(SCRIPTS).rows()}
    sentences = _first_sentences(package)

    assert {name: documented.get(name) for name in sentences} == sentences


def test_no_script_is_documented_that_does_not_exist() -> None:
    documented = _names(page(SCRIPTS).rows()) - {"script"}

    assert documented == {*_first_sentences("dramatiq_streams"), *_first_sentences("crawl_actors")}


def test_documented_bound_of_forwarding_is_that_of_the_code() -> None:
    assert f"at most {FORWARD_LIMIT} due messages" in page(SCRIPTS).text


def test_options_of_idempotency_are_those_of_the_code() -> None:
    parameters = inspect.signature(Idempotency).parameters.values()
    rows = page(OPTIONS).rows("Idempotency")
    (end,) = [n for n, row in enumerate(rows) if row[0] == "option" and n > 0]

    documented = {row[0].strip("`"): row[1].strip("`") for row in rows[1:end]}

    actual = {each.name: repr(each.default).replace("'", '"') for each in parameters}
    assert documented == actual
    assert _names(rows[end:]) == Idempotency().actor_options


def test_every_public_name_of_the_middleware_is_documented() -> None:
    rows = page("docs/reference/public-names.md").rows("`dramatiq_streams.middleware`")

    assert {_without_arguments(name) for name in _names(rows)} == set(middleware.__all__)


def _names(rows: list[list[str]]) -> set[str]:
    return {row[0].strip("`") for row in rows if row[0].startswith("`")}


def _defaults(doc: DocPage, heading: str) -> dict[str, str]:
    return {row[0].strip("`"): row[1].strip("`") for row in doc.rows(heading)[1:]}


def _without_arguments(name: str) -> str:
    return name.partition("(")[0]


def _written(name: str) -> str:
    """The member of the broker as the reference writes it: its arguments without their types."""
    member = vars(StreamsBroker).get(name)
    if not inspect.isfunction(member):
        assert hasattr(StreamsBroker(), name) if name == "namespace" else member is not None, name
        return name
    _self, *parameters = inspect.signature(member).parameters.values()
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return f"{name}{inspect.Signature(bare)}"


def _docstring_rows(docstring: str | None) -> list[list[str]]:
    rows = [line for line in (docstring or "").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _first_sentences(package: str) -> dict[str, str]:
    found = {}
    for file in resources.files(package).joinpath("lua").iterdir():
        if file.is_file():
            header = _HEADER.match(file.read_text(encoding="utf-8"))
            assert header, file
            found[file.name.removesuffix(".lua")] = " ".join(header[1].split())
    return found
