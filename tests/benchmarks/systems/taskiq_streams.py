"""taskiq with the RedisStreamBroker of taskiq-redis, with its defaults, but a quiet log."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Iterable

from tests.benchmarks.systems.dramatiq_family import work
from tests.benchmarks.systems.interface import URL, Send, System, python_module


class Taskiq(System):
    """RedisStreamBroker; its tasks are ordinary functions, run by threads."""

    name = "taskiq"
    title = "taskiq-redis streams"

    def __init__(self, url: str, queue: str) -> None:
        from taskiq_redis import RedisStreamBroker

        self.broker = RedisStreamBroker(url=url, queue_name=queue)
        self._task = self.broker.task(task_name="work")(work)
        self._loop: asyncio.AbstractEventLoop | None = None

    def send(self, one: Send) -> None:
        self.send_each([one], array("d"))

    def send_each(self, sends: Iterable[Send], sent_at: array[float]) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            # Creates the group: what is sent before is never delivered.
            self._loop.run_until_complete(self.broker.startup())
        self._loop.run_until_complete(self._send_each(sends, sent_at))

    async def _send_each(self, sends: Iterable[Send], sent_at: array[float]) -> None:
        for one in sends:
            if one.wait:
                await asyncio.sleep(one.wait)
            sent_at.append(time.monotonic())
            await self._task.kiq(URL, one.number)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.run_until_complete(self.broker.shutdown())
            self._loop.close()

    @classmethod
    def worker_command(cls, app: str, *, processes: int, threads: int) -> list[str]:
        counts = ["--workers", str(processes), "--max-threadpool-threads", str(threads)]
        # By default it prints a line for each task.
        return python_module("taskiq", "worker", f"{app}:broker", "--log-level", "WARNING", *counts)
