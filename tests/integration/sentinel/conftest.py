"""A service with sentinels that the tests of this folder share; none of them disturbs it."""

from collections.abc import Iterator

import pytest

from tests.support.sentinels import Deployment


@pytest.fixture(scope="package")
def deployment() -> Iterator[Deployment]:
    with Deployment() as started:
        yield started
