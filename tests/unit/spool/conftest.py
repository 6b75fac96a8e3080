"""A spool in a file of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dramatiq_streams.spool import Spool
from tests.unit.spool.filing import open_spool


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def spool(path: Path) -> Iterator[Spool]:
    spool = open_spool(path)
    yield spool
    spool.close()
