"""A server that becomes unable in the middle of a pipeline, which no test can time."""

from pathlib import Path
from typing import Any

import pytest
from dramatiq.errors import ConnectionFailed
from dramatiq.message import Message

from dramatiq_streams import ServerOutOfMemory
from dramatiq_streams.draining import Drain
from dramatiq_streams.lanes import Lanes
from dramatiq_streams.options import ProducerOptions
from dramatiq_streams.outbox import Outgoing, Receipt
from dramatiq_streams.producer import Producer
from dramatiq_streams.spool import Spool

OPTIONS = ProducerOptions(
    enqueue_timeout_ms=0,
    wait_replicas=0,
    wait_timeout_ms=0,
    max_message_bytes=1_000,
    spool=None,
    spool_max_messages=10,
    spool_max_bytes=1_000,
)
FULL = ServerOutOfMemory()


class Unable:
    """An outbox whose server refuses the second message for now, and has no room for the third."""

    def send_many(self, chunk: list[Outgoing]) -> Receipt:
        return Receipt([None, ConnectionFailed("read only now"), FULL, None])


@pytest.fixture
def chunk() -> list[Outgoing]:
    messages = [Message[Any]("mail", "work", (number,), {}, {}) for number in range(4)]
    return [Outgoing.of(message, 1, b"%d" % message.args[0]) for message in messages]


def make_producer(drain: Drain | None) -> Producer:
    outbox: Any = Unable()
    lanes = Lanes.of(["only"])
    return Producer(outbox, options=OPTIONS, lanes=lanes, reach=lambda: None, drain=drain)


def test_refused_messages_are_reported_one_by_one(chunk: list[Outgoing]) -> None:
    receipt = make_producer(None).send_many(chunk)

    assert [type(failure) for failure in receipt.failures] == [
        type(None),
        ConnectionFailed,
        ServerOutOfMemory,
        type(None),
    ]


def test_only_those_that_the_server_could_not_serve_are_spooled(
    chunk: list[Outgoing], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(str(tmp_path / "spool"), namespace="ns", max_messages=10, max_bytes=1_000)
    outbox: Any = Unable()
    drain = Drain(spool, outbox, reach=lambda: None)
    monkeypatch.setattr(drain, "start", lambda: None)

    receipt = make_producer(drain).send_many(chunk)

    assert receipt.failures == [None, None, FULL, None]
    assert [found.body for found in spool.oldest("mail", 10, max_bytes=100)] == [b"1"]
    spool.close()
