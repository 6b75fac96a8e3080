"""The soak takes longer than any other test: it is the first to begin."""

from pathlib import Path

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what is in this folder before all else."""
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)
