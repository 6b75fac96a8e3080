"""The reference has every method of claims and of guarded tables, with its arguments."""

import inspect
import re

import pytest

from dramatiq_streams import Claims, VersionedTable
from dramatiq_streams.claims.bloom import BloomClaims
from tests.docs.pages import code_names, page

PAGE = page("docs/reference/public-names.md")


@pytest.mark.parametrize("kind", [Claims, VersionedTable])
def test_every_method_is_documented_with_its_arguments(kind: type) -> None:
    documented = {row[0].strip("`") for row in PAGE.rows(f"`{kind.__name__}`")[1:]}

    assert documented == {_written(name, member) for name, member in _methods(kind)}


def test_every_member_of_bloom_claims_is_named() -> None:
    (line,) = [line for line in PAGE.text.splitlines() if "BloomClaims(" in line]

    names = {name.partition("(")[0] for name in code_names(line)}

    own = {name for name in vars(BloomClaims) if not name.startswith("_")}
    assert names == own | {"dramatiq_streams.claims.bloom.BloomClaims"}


@pytest.mark.parametrize("kind", [Claims, VersionedTable, BloomClaims])
def test_options_are_those_of_the_constructor(kind: type) -> None:
    is_of_kind = re.compile(rf"\b{kind.__name__}\(").search
    (line,) = filter(is_of_kind, PAGE.text.splitlines())

    assert f"{kind.__name__}{_bare(inspect.signature(kind))}`" in line.replace('"', "'")


def _methods(kind: type) -> list[tuple[str, object]]:
    members = inspect.getmembers(kind, inspect.isfunction)
    return [(name, member) for name, member in members if not name.startswith("_")]


def _written(name: str, member: object) -> str:
    assert callable(member)
    _self, *parameters = inspect.signature(member).parameters.values()
    return f"{name}{_bare(inspect.Signature(parameters))}".replace("'", '"')


def _bare(signature: inspect.Signature) -> inspect.Signature:
    """The signature without its types."""
    parameters = [
        each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()
    ]
    return inspect.Signature(parameters)
