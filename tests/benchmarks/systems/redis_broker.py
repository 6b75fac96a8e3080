"""dramatiq's RedisBroker, with all its defaults; redis-py finds hiredis by itself."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from tests.benchmarks.systems.dramatiq_family import DramatiqSystem


class Redis(DramatiqSystem):
    """RedisBroker."""

    name = "redis"
    title = "RedisBroker"

    @staticmethod
    def make_broker(url: str) -> dramatiq.Broker:
        return RedisBroker(url=url)
