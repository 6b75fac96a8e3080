"""dramatiq's Broker on Redis Streams. Wires the rooms; sends no command itself."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import Any

import redis
from dramatiq.actor import Actor
from dramatiq.errors import QueueJoinTimeout
from dramatiq.message import Message
from dramatiq.middleware import Middleware, default_middleware

from . import clock
from .arguments import (
    canonical_queue_name,
    checked_actor_name,
    checked_interval,
    checked_message,
    checked_messages,
    checked_middleware,
    checked_patience,
)
from .causes import IMPOSSIBLE
from .connections import Connections
from .consumer import StreamsConsumer
from .errors import EnqueueUnconfirmed, NotEnqueued, NotReplicated, PartlyEnqueued
from .messages import DeliveredMessage
from .middleware.hand_back import HandBack
from .middleware.lease_guard import LeaseGuard
from .middleware.option_guard import OptionGuard
from .middleware.unique import Unique
from .options import (
    DEFAULT_DEAD_MESSAGE_TTL_MS,
    DEFAULT_DISCONNECT_GRACE_MS,
    DEFAULT_ENQUEUE_TIMEOUT_MS,
    DEFAULT_LEASE_MS,
    DEFAULT_MAX_DEAD_MESSAGES,
    DEFAULT_MAX_DELIVERIES,
    DEFAULT_MAX_MESSAGE_BYTES,
    DEFAULT_NAMESPACE,
    DEFAULT_SPOOL_MAX_BYTES,
    DEFAULT_SPOOL_MAX_MESSAGES,
    DEFAULT_WAIT_TIMEOUT_MS,
    BrokerOptions,
    ProducerOptions,
    checked_prefetch,
    checked_queue_name,
    checked_timeout,
)
from .outbox import Outgoing
from .preparing import Preparing
from .process import Process
from .signals import SignallingBroker
from .urls import refuse_unknown_names
from .vetting import Vetting


class StreamsBroker(SignallingBroker):
    """A broker on Redis Streams consumer groups; needs Redis 6.2 or newer, or Valkey.

    The constructor checks its options and connects to nothing; each process that uses the broker,
    also one forked after the construction, connects by itself.

    Args:
        url: `redis://`, `rediss://`, `unix://`, `sentinel://`, `sentinels://` or `embedded://PATH`.
            Default `redis://localhost`.
        client: An existing `redis.Redis`, instead of *url*; its parameters are used, not its
            connections.
        namespace: Begins every key.
        middleware: All middleware, instead of dramatiq's default.
        lanes: Names, highest first, or a mapping of names to the percentage that a lower lane gets
            at least. Default `{"high": 0, "default": 20, "low": 5}`.
        lease: Milliseconds without a sign of life after which a worker's messages go to others.
            Extended for as long as the worker lives: it need not be longer than a task.
        disconnect_grace: Milliseconds that a worker may be without any connection to the server
            before its messages go to others, though its lease has not expired.
        max_deliveries: A message that was delivered this often and never settled, because its
            worker died each time, becomes a dead letter.
        dead_message_ttl: Milliseconds that dead letters are kept; an option of actors, too.
        max_dead_messages: The most dead letters that are kept of a queue; the oldest have to go.
        enqueue_timeout: Milliseconds for which sending is tried again while the server cannot be
            reached; 0 for one attempt. Threads that run an event loop make one attempt only.
        wait_replicas: How many replicas have to confirm what is sent.
        wait_timeout: Milliseconds that they have for it.
        max_message_bytes: What is larger when it is encoded is not sent.
        spool: A file for what cannot be sent; it is sent from there when the server is back.
        spool_max_messages: The most messages that wait there.
        spool_max_bytes: The most bytes that they have together.
        **redis_parameters: Connection options of `redis.Redis`, also beside *url*.

    Raises:
        InvalidOption: An option, its value and what is allowed.
    """

    def __init__(
        self,
        *,
        url: str | None = None,
        client: redis.Redis | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        middleware: list[Middleware] | None = None,
        lanes: Sequence[str] | Mapping[str, float] | None = None,
        lease: int = DEFAULT_LEASE_MS,
        disconnect_grace: int = DEFAULT_DISCONNECT_GRACE_MS,
        max_deliveries: int = DEFAULT_MAX_DELIVERIES,
        dead_message_ttl: int = DEFAULT_DEAD_MESSAGE_TTL_MS,
        max_dead_messages: int = DEFAULT_MAX_DEAD_MESSAGES,
        enqueue_timeout: int = DEFAULT_ENQUEUE_TIMEOUT_MS,
        wait_replicas: int = 0,
        wait_timeout: int = DEFAULT_WAIT_TIMEOUT_MS,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        spool: str | os.PathLike[str] | None = None,
        spool_max_messages: int = DEFAULT_SPOOL_MAX_MESSAGES,
        spool_max_bytes: int = DEFAULT_SPOOL_MAX_BYTES,
        **redis_parameters: Any,
    ) -> None:
        self.options = BrokerOptions.of(
            namespace=namespace,
            lanes=lanes,
            lease=lease,
            disconnect_grace=disconnect_grace,
            max_deliveries=max_deliveries,
            dead_message_ttl=dead_message_ttl,
            max_dead_messages=max_dead_messages,
        )
        self._producing = ProducerOptions.of(
            enqueue_timeout=enqueue_timeout,
            wait_replicas=wait_replicas,
            wait_timeout=wait_timeout,
            max_message_bytes=max_message_bytes,
            spool=spool,
            spool_max_messages=spool_max_messages,
            spool_max_bytes=spool_max_bytes,
        )
        self.namespace = namespace
        refuse_unknown_names(redis_parameters, own=signature(StreamsBroker).parameters)
        self._connections = Connections(url=url, client=client, parameters=redis_parameters)
        #: What `Metrics` counts.
        self.events = self._connections.events
        self._processes: dict[int, Process] = {}
        default = middleware is None
        given = [m() for m in default_middleware] if default else checked_middleware(middleware)
        own = [LeaseGuard(self.options.lease_ms), HandBack(lambda: self._process)]
        self._unique = Unique(lambda: self._process, actors=lambda: self.actors)
        super().__init__(middleware=[*own, *given, self._unique])
        self._vetting = Vetting(self.middleware, lease_ms=self.options.lease_ms)
        self.add_middleware(OptionGuard(self._vetting), after=HandBack)
        self.actor_options |= {"lane", "dead_message_ttl"}
        self._preparing = Preparing(
            self.options,
            max_message_bytes=self._producing.max_message_bytes,
            actors=self.actors,
            vetting=self._vetting,
            emit_before=self.emit_before,
            unique=self._unique,
        )

    @property
    def client(self) -> redis.Redis:
        """This process's Redis client; replies are bytes, and nothing is retried."""
        return self._process.client

    @property
    def _process(self) -> Process:
        # No lock: a fork could copy it while it is held. `setdefault` is atomic.
        pid = os.getpid()
        found = self._processes.get(pid)
        if found is None:
            made = Process(self._connections, self.options, self._producing, actors=self.actors)
            found = self._processes.setdefault(pid, made)
        return found

    def declare_actor(self, actor: Actor[Any, Any]) -> None:
        """Declare *actor* and its queue.

        Raises:
            InvalidOption: Its name or an option is not possible.
            UnknownLane: Its option `lane` names none of the broker's lanes.
        """
        checked_actor_name(actor.actor_name)
        self._vetting.check_actor(actor.options)
        self.options.lanes.choose({}, actor.options, actor.priority)
        self._unique.check_actor(
            actor,
            has_idempotency=any(
                "idempotency_key" in middleware.actor_options
                for middleware in self.middleware
                if middleware is not self._unique
            ),
        )
        super().declare_actor(actor)

    def declare_queue(self, queue_name: str) -> None:
        """Declare a queue, if it is not declared yet; nothing is sent to the server.

        Raises:
            InvalidOption: *queue_name* is no possible name.
        """
        if checked_queue_name(queue_name) not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues[queue_name] = None
            self.emit_after("declare_queue", queue_name)

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> StreamsConsumer:
        """A consumer of *queue_name*, which need not be declared.

        Args:
            prefetch: The most messages that may be out with it, not yet acknowledged.
            timeout: Milliseconds after which `next` returns None.

        Raises:
            BrokerConnectionError: The server cannot be reached.
            UnsupportedServer: It is older than Redis 6.2.
        """
        return self._process.consume(
            checked_queue_name(queue_name),
            prefetch=checked_prefetch(prefetch),
            timeout_ms=checked_timeout(timeout),
        )

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        """Enqueue *message*, to be delivered after *delay* milliseconds at the earliest.

        A message in delivery whose `retries` have grown, as the Retries middleware passes it,
        replaces its delivery in one step. Anything else is a new message.

        Returns:
            A copy of the message as it was enqueued, with option `eta` if it was delayed. Of a
            message whose unique key another one has, and that was therefore not enqueued, a copy
            with the id of that other one.

        Raises:
            NotEnqueued: The server could not be reached, and there was no room in a spool.
            EnqueueUnconfirmed: The connection broke: the message may or may not be enqueued.
            NotReplicated: It is enqueued, but too few replicas have it.
            ServerOutOfMemory: The message was not enqueued.
            MessageTooLarge: It has more than `max_message_bytes`; it was not enqueued.
            InvalidOption: The delay, the lane or the priority is not possible.
        """
        is_delivered = isinstance(message, DeliveredMessage)
        if isinstance(message, DeliveredMessage):
            if message.is_being_retried:
                return self._retry(message, delay)
            message = message.message
        message = checked_message(message)
        try:
            self._preparing.check_new(message, delay)
            outgoing = self._preparing.prepare(message, delay, follows_itself=is_delivered)
            try:
                receipt = self._process.producer.send(outgoing)
            except NotReplicated:
                self.emit_after("enqueue", outgoing.message, outgoing.delay)
                raise
        except Exception as error:
            self._causes.keep(error)
            raise
        return self._enqueued(outgoing, receipt.holders.get(0))

    def enqueue_many(
        self, messages: Iterable[Message[Any]], *, delay: int | None = None
    ) -> list[Message[Any]]:
        """Enqueue *messages* in order, a thousand per round trip, all with the same *delay*.

        Returns:
            The messages as they were enqueued.

        Raises:
            PartlyEnqueued: It names what was enqueued, what perhaps, and what not.
            NotReplicated: The same, when all that was sent is enqueued, but not on enough replicas.
            InvalidOption: As `enqueue`; nothing was sent.
        """
        later = checked_messages(messages)
        self._preparing.check_all_new(later, delay)
        enqueued: list[Message[Any]] = []
        while later:
            try:
                chunk = self._preparing.prepare_chunk(later, delay)
            except Exception as error:  # too large, or refused by middleware or the encoder
                if not enqueued:
                    raise
                told = PartlyEnqueued(error, enqueued=enqueued, unconfirmed=[], unsent=later)
                raise told from error
            del later[: len(chunk)]
            try:
                self._send_chunk(chunk, enqueued, later=later)
            except Exception as error:
                self._causes.keep(error)
                raise
        return enqueued

    def defer(self, message: DeliveredMessage, *, delay: int) -> bool:
        """Replace a delivery by the same message, to be delivered after *delay* milliseconds.

        It is neither a retry nor a new message: its options stay, and no middleware is told.

        Returns:
            False when the delivery was lost before, so that another worker has the message.

        Raises:
            BrokerConnectionError: It may not have happened yet; acknowledging *message* does it.
        """
        message.must_stay = True
        outgoing = self._preparing.prepare_deferral(message, delay)
        return self._process.hand_over(message, outgoing.as_retry())

    def get_declared_queues(self) -> set[str]:
        """The names of all queues declared so far."""
        return set(self.queues)

    def flush(self, queue_name: str) -> None:
        """Drop all messages of a queue: waiting, delivered, delayed and dead."""
        self._process.queues.purge(canonical_queue_name(queue_name))

    def flush_all(self) -> None:
        """Drop all messages of all declared queues."""
        for queue_name in list(self.queues):
            self.flush(queue_name)

    def join(self, queue_name: str, *, interval: int = 20, timeout: int | None = None) -> None:
        """Wait until a queue is empty: nothing waiting, delivered or delayed; in any process.

        Args:
            queue_name: Need not be declared.
            interval: Milliseconds between two looks.
            timeout: Milliseconds to wait at most. Default: without end.

        Raises:
            QueueJoinTimeout: *timeout* has passed.
        """
        name, pause_ms = canonical_queue_name(queue_name), checked_interval(interval)
        patience_ms = checked_patience(timeout)
        deadline_ms = None if patience_ms is None else clock.monotonic_ms() + patience_ms
        while self._process.queues.size(name):
            if deadline_ms is not None and clock.monotonic_ms() >= deadline_ms:
                raise QueueJoinTimeout(queue_name)
            time.sleep(pause_ms / 1000)

    def close(self) -> None:
        """Stop this process's thread and close its connections; a later call opens them anew."""
        process = self._processes.pop(os.getpid(), None)
        if process is not None:
            process.close()

    def _retry(self, message: DeliveredMessage, delay: int | None) -> Message[Any]:
        # Until the hand-over is prepared, and unless it is done, the original must stay.
        message.must_stay = True
        try:
            outgoing = self._preparing.prepare_retry(message, delay)
        except IMPOSSIBLE as error:
            message.give_up(error)
            raise
        # After an actor its acknowledgement is next, and that tries until it succeeds.
        is_settled_next = self._causes.is_about(message)
        if self._process.hand_over(message, outgoing.as_retry(), is_settled_next=is_settled_next):
            self.emit_after("enqueue", outgoing.message, outgoing.delay)
        return outgoing.message

    def _enqueued(self, outgoing: Outgoing, holder: str | None) -> Message[Any]:
        """What the caller gets; *holder* is the message that has its unique key, if another has."""
        if holder is not None:
            self.logger.debug(
                "Message %r is not enqueued: message %r has its unique key.",
                outgoing.message.message_id,
                holder,
            )
            return outgoing.message.copy(message_id=holder)
        self.emit_after("enqueue", outgoing.message, outgoing.delay)
        return outgoing.message

    def _send_chunk(
        self,
        chunk: Sequence[Outgoing],
        enqueued: list[Message[Any]],
        *,
        later: Sequence[Message[Any]],
    ) -> None:
        """Send *chunk* and add what the server confirms to *enqueued*."""
        producer = self._process.producer
        try:
            receipt = producer.send_many(chunk)
        except (NotEnqueued, EnqueueUnconfirmed) as error:
            unsent = [*error.unsent, *later]
            raise PartlyEnqueued(
                error, enqueued=enqueued, unconfirmed=error.unconfirmed, unsent=unsent
            ) from error
        refused = []
        for position, (outgoing, failure) in enumerate(zip(chunk, receipt.failures, strict=True)):
            if failure is None:
                enqueued.append(self._enqueued(outgoing, receipt.holders.get(position)))
            else:
                refused.append(outgoing.message)
        if cause := receipt.first_failure:
            unsent = [*refused, *later]
            raise PartlyEnqueued(cause, enqueued=enqueued, unconfirmed=[], unsent=unsent) from cause
        producer.check_replicas(receipt, enqueued, unsent=later)
