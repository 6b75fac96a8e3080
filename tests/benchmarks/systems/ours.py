"""StreamsBroker, with all its defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dramatiq

from dramatiq_streams import StreamsBroker
from tests.benchmarks.systems.dramatiq_family import DramatiqSystem
from tests.benchmarks.systems.interface import URL, Send


class Ours(DramatiqSystem):
    """StreamsBroker; `send_many` is its `enqueue_many`."""

    name = "ours"
    title = "StreamsBroker"

    broker: StreamsBroker

    @staticmethod
    def make_broker(url: str) -> StreamsBroker:
        return StreamsBroker(url=url)

    def send(self, one: Send) -> None:
        if one.lane is None:
            super().send(one)
        else:
            self.actor.send_with_options(
                args=self.arguments(one), delay=one.delay_ms, lane=one.lane
            )

    def send_many(self, sends: Sequence[Send]) -> None:
        (delay_ms,) = {one.delay_ms for one in sends}
        self.broker.enqueue_many(map(self._message, sends), delay=delay_ms)

    def _message(self, one: Send) -> dramatiq.Message[Any]:
        if one.lane is None and not one.task_ms:
            return self.actor.message(URL, one.number)
        options: dict[str, Any] = {"lane": one.lane} if one.lane else {}
        return self.actor.message_with_options(args=self.arguments(one), **options)
