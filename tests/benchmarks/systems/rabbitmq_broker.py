"""dramatiq's RabbitmqBroker, with all its defaults."""

from __future__ import annotations

import dramatiq

from tests.benchmarks.systems.dramatiq_family import DramatiqSystem


class Rabbitmq(DramatiqSystem):
    """RabbitmqBroker."""

    name = "rabbitmq"
    title = "RabbitmqBroker"
    server = "rabbitmq"

    @staticmethod
    def make_broker(url: str) -> dramatiq.Broker:
        from dramatiq.brokers.rabbitmq import RabbitmqBroker

        return RabbitmqBroker(url=url)
