"""dramatiq's StubBroker: no server, one process. The ceiling that dramatiq's own Worker sets."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.stub import StubBroker

from tests.benchmarks.systems.dramatiq_family import DramatiqSystem


class Stub(DramatiqSystem):
    """StubBroker."""

    name = "stub"
    title = "StubBroker (ceiling)"
    server = "none"

    @staticmethod
    def make_broker(url: str) -> dramatiq.Broker:
        return StubBroker()
