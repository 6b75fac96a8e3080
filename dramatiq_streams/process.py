"""What one process has of a broker: its name as a consumer, its connections, thread and holdings.

Brokers are built before forks; nothing here exists before the process that uses it.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dramatiq.actor import Actor
from dramatiq.broker import MessageProxy
from dramatiq.errors import BrokerConnectionError
from dramatiq.logging import get_logger

from .caretaking import Caretaker
from .connections import Connections, check_server
from .consumer import StreamsConsumer
from .dead_letters import DeadLetters
from .delays import Delays
from .draining import Drain
from .errors import StreamsError
from .executor import Executor, Presence
from .fetching import Fetcher
from .holdings import Holdings
from .isolation import Isolation
from .lifetimes import Lifetimes
from .messages import DeliveredMessage, RetryHandOver
from .options import BrokerOptions, ProducerOptions
from .outages import Outages, Patience
from .outbox import Outbox
from .pacing import Crew
from .producer import Producer
from .queues import Queues
from .registry import Registry
from .reservations import Reservations
from .scope import Scope
from .settlement import Settlement
from .spool import Spool


class Process:
    """This process's part of a broker."""

    def __init__(
        self,
        connections: Connections,
        options: BrokerOptions,
        producing: ProducerOptions,
        *,
        actors: Mapping[str, Actor[Any, Any]],
    ) -> None:
        name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        self.logger = get_logger(__name__, type(self))
        self._connections = connections
        self._options = options
        self._lifetimes = Lifetimes(
            options.dead_message_ttl_ms, options.max_dead_messages, actors=actors
        )
        self._scope = Scope(options.namespace, options.lanes, name)
        self._isolation = Isolation()
        self._retreat = threading.Event()
        self._outages = Outages()
        self._patience = Patience(self._outages, self._retreat)
        #: Of each Worker that runs: its threads, see `Crew`, and its queues, empty for all.
        self._workers: dict[int, tuple[int, Collection[str]]] = {}
        self._crews: dict[str, Crew] = {}
        self._readers: dict[str, Presence] = {}
        self._settlements: dict[str, Settlement] = {}
        self._caretaker = Caretaker(
            connections,
            options,
            self._scope,
            lifetimes=self._lifetimes,
            settlements=self._settlements,
            readers=self._readers,
            outages=self._outages,
        )
        self._is_server_checked = False
        self.client = connections.client()
        self._events = connections.events
        self.executor = connections.shared()
        self._settling = self.executor.with_patience(self._patience)
        self.queues = self._queues(self.executor)
        self.delays = Delays(self.executor, self._scope)
        self.reservations = Reservations(self.executor, self._scope)
        self._registry = Registry(self.executor, options.namespace)
        self._sending = self._sending_executor(producing)
        self._outbox = Outbox(
            self._sending,
            queues=self.queues,
            delays=self.delays,
            reservations=self.reservations,
            introduce=self.introduce,
            wait_replicas=producing.wait_replicas,
            wait_timeout_ms=producing.wait_timeout_ms,
        )
        self._spool = self._spool_of(producing)
        self._drain = None if self._spool is None else self._drain_of(self._spool)
        self.producer = Producer(
            self._outbox,
            options=producing,
            lanes=options.lanes,
            reach=self.check_server,
            drain=self._drain,
        )
        self.dead_letters = self._dead_letters(self.executor)

    def check_server(self) -> None:
        """Make sure, once, that the server is new enough.

        Raises:
            UnsupportedServer: It is older than Redis 6.2.
        """
        if not self._is_server_checked:
            check_server(self.executor)
            self._is_server_checked = True

    def introduce(self, queue_name: str) -> None:
        """Make sure, once, that operators find *queue_name*; what fails is made up for later."""
        if not self._registry.has_introduced(queue_name):
            self._registry.introduce(self._caretaker.registration(queue_name))

    def settlement(self, queue_name: str) -> Settlement:
        """The settlement of *queue_name*: one for the life of the process."""
        found = self._settlements.get(queue_name)
        if found is None:
            made = Settlement(
                queue_name,
                queues=self._queues(self._settling),
                delays=Delays(self._settling, self._scope),
                dead_letters=self._dead_letters(self._settling),
                on_settled=self._isolation.leave,
                crew=self._crew(queue_name),
                events=self._events,
            )
            found = self._settlements.setdefault(queue_name, made)
            self._engage_crews()
        return found

    def hand_over(
        self, message: DeliveredMessage, retry: RetryHandOver, *, is_settled_next: bool = False
    ) -> bool:
        """Replace *message* by its *retry* in one step, see `Settlement.hand_over`.

        Args:
            is_settled_next: Then under a Worker an outage is no error: acknowledging *message*
                does it, for as long as that takes.

        Returns:
            Whether it is replaced now.

        Raises:
            BrokerConnectionError: It may not have happened yet; acknowledging *message* does it.
        """
        try:
            return self.settlement(message.queue_name).hand_over(message, retry)
        except BrokerConnectionError as error:
            if not (is_settled_next and self._outages.are_ridden_out):
                raise
            self.logger.debug("Message %r is retried later: %s", message.message_id, error)
            return False

    def consume(self, queue_name: str, *, prefetch: int, timeout_ms: int) -> StreamsConsumer:
        """A new consumer of *queue_name*; its deliveries are kept alive from now on.

        Raises:
            BrokerConnectionError: The server cannot be reached, and no Worker runs here.
            UnsupportedServer: It is older than Redis 6.2.
        """
        try:
            self.check_server()
            self.introduce(queue_name)
        except BrokerConnectionError:
            if not self._outages.are_ridden_out:
                raise
        settlement = self.settlement(queue_name)
        self._caretaker.start()
        if self._drain is not None:  # a worker may be all that is left to send what is spooled
            self._drain.start()
        connection = self._connections.dedicated(blocking_ms=timeout_ms)
        connection = connection.with_patience(self._patience)
        self._readers[queue_name] = connection.presence
        fetcher = Fetcher(
            queue_name,
            prefetch=prefetch,
            lease_ms=self._options.lease_ms,
            lanes=self._options.lanes,
            queues=self._queues(connection),
            forwarder=self._queues(self._settling),
            settlement=settlement,
            register=lambda: self._enter(queue_name, connection),
        )
        return StreamsConsumer(
            fetcher,
            timeout_ms=timeout_ms,
            connection=connection,
            settlement=settlement,
            isolation=self._isolation,
            retreat=self._retreat,
            outages=self._outages,
        )

    def _enter(self, queue_name: str, connection: Executor) -> None:
        self.check_server()
        self.introduce(queue_name)
        self._caretaker.enter(queue_name, connection)

    def _crew(self, queue_name: str) -> Crew:
        return self._crews.setdefault(queue_name, Crew())

    def _engage_crews(self) -> None:
        """Tell each queue which threads run its messages, and which other queues they run."""
        shared: dict[tuple[int, ...], list[Holdings]] = {}
        for queue_name, settlement in list(self._settlements.items()):
            serving = {
                worker: threads
                for worker, (threads, queues) in list(self._workers.items())
                if not queues or queue_name in queues
            }
            queues_of_these = shared.setdefault(tuple(serving), [])
            queues_of_these.append(settlement.holdings)
            self._crew(queue_name).engage(
                serving.values(), queues_of_these, own=settlement.holdings
            )

    def advance(self, worker: object, *, threads: int, queues: Collection[str] = ()) -> None:
        """Let consumers fetch: *worker* starts.

        Args:
            threads: How many it has, or zero; see `Crew`.
            queues: Those that it consumes, all if there are none.
        """
        self._workers[id(worker)] = threads, queues
        self._engage_crews()
        self._retreat.clear()
        self._outages.are_ridden_out = True

    def retreat(self, worker: object, unstarted: Iterable[MessageProxy]) -> None:
        """Give back *unstarted*: *worker* stops; fetch nothing more if it is the last one."""
        self._workers.pop(id(worker), None)
        self._engage_crews()
        if not self._workers:
            self._retreat.set()  # First: *unstarted* may be taken from where consumers still add.
        by_queue: dict[str, list[MessageProxy]] = {}
        for message in unstarted:
            by_queue.setdefault(message.queue_name, []).append(message)
        for queue_name, messages in by_queue.items():
            try:
                self.settlement(queue_name).requeue(messages)
            except BrokerConnectionError as error:
                self.logger.warning(
                    "%d messages of queue %r could not be given back; others have them when this"
                    " process has ended: %s",
                    len(messages),
                    queue_name,
                    error,
                )

    def close(self) -> None:
        """Stop the threads, send the acks that are left, close the connections and the spool."""
        if self._drain is not None:
            self._drain.stop()
        self._send_acks()
        # What it is doing would take as long as a command that a silent server does not answer.
        self._caretaker.stop(wait=not self._outages.is_silent)
        self._leave()
        self._caretaker.close()
        self.executor.close()
        self.client.close()
        self._sending.close()
        if self._spool is not None:
            self._spool.close()

    def _send_acks(self) -> None:
        for queue_name, settlement in self._settlements.items():
            try:
                settlement.send_acks()
            except StreamsError as error:
                self.logger.warning("Acks of queue %r are not sent: %s", queue_name, error)

    def _leave(self) -> None:
        for queue_name in self._settlements.keys() & self._readers.keys():
            try:
                self._patience.check()
                self._caretaker.leave(queue_name)
            except BrokerConnectionError as error:
                self.logger.warning("The broker is closed without the server: %s", error)
                break  # A server that hangs would take its time for each queue.
            except StreamsError as error:
                self.logger.warning("Queue %r is left as it is: %s", queue_name, error)

    def _sending_executor(self, producing: ProducerOptions) -> Executor:
        """The connections on which messages are sent; the server may wait for replicas there."""
        if not producing.wait_replicas:
            return self.executor
        return self._connections.shared(blocking_ms=producing.wait_timeout_ms)

    def _spool_of(self, producing: ProducerOptions) -> Spool | None:
        if producing.spool is None:
            return None
        return Spool(
            producing.spool,
            namespace=self._options.namespace,
            max_messages=producing.spool_max_messages,
            max_bytes=producing.spool_max_bytes,
        )

    def _drain_of(self, spool: Spool) -> Drain:
        return Drain(spool, self._outbox, reach=lambda: self.executor.execute("PING"))

    def _queues(self, executor: Executor) -> Queues:
        return Queues(executor, self._scope, max_deliveries=self._options.max_deliveries)

    def _dead_letters(self, executor: Executor) -> DeadLetters:
        return DeadLetters(executor, self._scope, lifetimes=self._lifetimes)
