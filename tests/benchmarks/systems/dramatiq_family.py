"""What all of dramatiq's brokers have in common: actors, `send`, and the `dramatiq` command."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from typing import Any

import dramatiq

from tests.benchmarks import ledger
from tests.benchmarks.systems.interface import URL, Send, System, python_module


def work(url: str, number: int, task_ms: int = 0) -> None:
    """The actor: it notes that it has started, and sleeps only when told to."""
    ledger.note(number)
    if task_ms:
        time.sleep(task_ms / 1000)


class DramatiqSystem(System):
    """A broker of dramatiq, with all its defaults."""

    def __init__(self, url: str, queue: str) -> None:
        self.broker = self.make_broker(url)
        dramatiq.set_broker(self.broker)
        self.actor = dramatiq.actor(broker=self.broker, queue_name=queue)(work)
        for number in range(1, int(os.environ.get("BENCH_QUEUES", "1"))):
            self.broker.declare_queue(f"{queue}-{number}")

    @staticmethod
    @abstractmethod
    def make_broker(url: str) -> dramatiq.Broker:
        """The broker, its options those that a user gets."""

    def send(self, one: Send) -> None:
        if one.delay_ms is None and not one.task_ms:
            self.actor.send(URL, one.number)
        else:
            self.actor.send_with_options(args=self.arguments(one), delay=one.delay_ms)

    @staticmethod
    def arguments(one: Send) -> tuple[Any, ...]:
        """The positional arguments of the actor."""
        return (URL, one.number, one.task_ms) if one.task_ms else (URL, one.number)

    @classmethod
    def worker_command(cls, app: str, *, processes: int, threads: int) -> list[str]:
        counts = ["--processes", str(processes), "--threads", str(threads)]
        # The second module ties the workers' lives to the command's.
        return python_module("dramatiq", app, "tests.support.mortal", *counts)
