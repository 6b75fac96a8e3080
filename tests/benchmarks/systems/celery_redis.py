"""Celery on Redis with its defaults (a task is acknowledged before it runs), and no results."""

from __future__ import annotations

from tests.benchmarks.systems.dramatiq_family import work
from tests.benchmarks.systems.interface import URL, Send, System, python_module


class Celery(System):
    """Celery in one process with threads."""

    name = "celery"
    title = "Celery (Redis)"

    def __init__(self, url: str, queue: str) -> None:
        import celery

        self.broker = celery.Celery("bench", broker=url)
        self.broker.conf.task_default_queue = queue
        self._task = self.broker.task(name="work", ignore_result=True)(work)

    def send(self, one: Send) -> None:
        if one.delay_ms is None:
            self._task.delay(URL, one.number)
        else:
            self._task.apply_async((URL, one.number), countdown=one.delay_ms / 1000)

    @classmethod
    def worker_command(cls, app: str, *, processes: int, threads: int) -> list[str]:
        if processes != 1:
            raise ValueError("Celery runs its threads in one process")
        pool = ["--pool", "threads", "--concurrency", str(threads)]
        return python_module("celery", "-A", f"{app}:broker", "worker", *pool)
