"""Senders behind a proxy that share a spool."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeBroker
from tests.contract.queue_state import QueueState
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server

MakeSender = Callable[..., StreamsBroker]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def queue(server: Server, namespace: str) -> Iterator[QueueState]:
    """The queue "default", past the proxy."""
    with server.client() as client:
        yield QueueState(client, namespace)


@pytest.fixture
def make_sender(make_broker: MakeBroker, proxy: FaultyProxy, spool: Path) -> MakeSender:
    """Makes brokers behind the proxy that share a spool."""

    def make(**options: Any) -> StreamsBroker:
        return make_broker(**{"url": proxy.url, "spool": spool, **options})

    return make


@pytest.fixture
def sender(make_sender: MakeSender) -> StreamsBroker:
    return make_sender()
