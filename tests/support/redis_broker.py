"""A real RedisBroker of dramatiq's, filled as its users fill it: what a migration takes over."""

import time
from typing import Any

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.common import current_millis
from dramatiq.message import Message
from dramatiq.middleware import Retries

from .servers import Server
from .waiting import wait_until


class OldBroker:
    """One namespace of RedisBroker on *server*, and its queue `default`."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.url = server.admin_url
        self.namespace = namespace
        self.client: redis.Redis = server.client()
        middleware = [Retries(min_backoff=1, max_backoff=1)]
        self.broker = RedisBroker(client=self.client, namespace=namespace, middleware=middleware)

    def send(self, *args: Any, queue: str = "default", delay: int | None = None, **options: Any):
        """Enqueue a call of the actor `work`; returns the message as it is stored."""
        actor = options.pop("actor", "work")
        message: Message[Any] = Message(
            queue_name=queue, actor_name=actor, args=args, kwargs={}, options=options
        )
        return self.broker.enqueue(message, delay=delay)

    def add_raw(self, body: bytes, *, queue: str = "default") -> None:
        """Enqueue a body that need not be a message."""
        self.broker.do_enqueue(queue, f"raw-{time.monotonic_ns()}", body)

    def fail(self, *args: Any) -> Message[Any]:
        """Have a real worker fail on a message for good."""

        @dramatiq.actor(broker=self.broker, actor_name="fail", max_retries=1)
        def fail(*args: Any) -> None:
            raise ZeroDivisionError("no flour")

        before = self.dead_count()
        message = fail.send(*args)
        worker = dramatiq.Worker(self.broker, worker_threads=1, worker_timeout=10)
        worker.start()
        wait_until(lambda: self.dead_count() > before, message="it is dead")
        worker.stop()
        self.broker.actors.clear()
        return message

    def fetch(self, number: int, *, queue: str = "default") -> "HeldByWorker":
        """Have a worker of its own fetch messages, without its acking any."""
        held = RedisBroker(client=self.client, namespace=self.namespace, middleware=[])
        consumer = held.consume(queue, prefetch=number)
        messages = [next(consumer) for _ in range(number)]
        return HeldByWorker(self, held, consumer, messages)

    def dead_count(self, queue: str = "default") -> int:
        """How many dead messages there are."""
        return self.client.zcard(f"{self.namespace}:{queue}.XQ")

    def keys(self) -> set[str]:
        """All keys of the namespace but the heartbeats, which RedisBroker leaves behind itself."""
        found = {key.decode() for key in self.client.scan_iter(f"{self.namespace}:*", count=1000)}
        return {key.removeprefix(f"{self.namespace}:") for key in found} - {"__heartbeats__"}

    def clean(self) -> None:
        """Delete the namespace."""
        for key in self.client.scan_iter(f"{self.namespace}:*", count=1000):
            self.client.delete(key)


class HeldByWorker:
    """Messages that one worker of the old broker has."""

    def __init__(self, old: OldBroker, broker: RedisBroker, consumer: Any, messages: Any) -> None:
        self.messages = messages
        self.consumer = consumer
        self._old = old
        self._broker = broker

    def fall_silent(self, milliseconds: int = 61_000) -> None:
        """As if its last sign of life were so long ago."""
        heartbeats = f"{self._old.namespace}:__heartbeats__"
        self._old.client.zadd(heartbeats, {self._broker.broker_id: current_millis() - milliseconds})
