"""The middleware itself: what becomes of a message that has a key, before and after its actor."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import redis
from dramatiq.actor import Actor
from dramatiq.broker import Broker, MessageProxy
from dramatiq.errors import BrokerConnectionError
from dramatiq.logging import get_logger
from dramatiq.middleware import Middleware, MiddlewareError

from ... import clock
from ...errors import InvalidIdempotency, InvalidOption, NotClaimed, StreamsError
from ...executor import Executor
from ...messages import DeliveredMessage, Entry
from ...options import BrokerOptions
from ...vetting import ChecksMessages
from .claiming import Claimant
from .deferring import Streams, forget_deferrals
from .masters import Masters
from .options import (
    DEFAULT_LEASE_MS,
    DEFAULT_PREFIX,
    DEFAULT_TTL_MS,
    IdempotencyOptions,
    OnBusy,
    OnDuplicate,
    OnUnavailable,
)
from .placement import check_place
from .records import Busy, Records, Request
from .refusals import Refusals
from .replays import Replays, results_of
from .requests import INTERRUPT, TTL, Requests, wants_interrupt
from .templates import KEY
from .tokens import set_claim
from .watchdog import Hold

#: Stands for the broker's own server until there is a broker.
OWN_SERVER = ("redis://localhost",)

#: How often somebody who waits for a key looks again.
POLL_MS = 100


class Idempotency(Middleware, ChecksMessages):
    """Suppresses duplicates: of messages with one key, one at a time runs, and once successfully.

    This is no promise of "exactly once". Two workers can run the same key at the same time, after
    one of them has lost its lease unnoticed; `current_fencing_token` is what keeps the late one
    from overwriting what the newer one wrote.

    Args:
        masters: The lock servers: URLs, `redis.Redis` clients or a `Masters`. Default: the
            broker's own server alone.
        ttl: Milliseconds that a key is remembered after its last change.
        lease: Milliseconds after which the key of a worker that died is free. Extended for as
            long as the worker lives: it need not be longer than a task.
        on_duplicate: For a message whose key is done: `skip` it, `replay` the stored result to
            its caller, or `raise` DuplicateMessage, which makes it a dead letter.
        on_busy: For a message whose key is running: `defer` it, `skip` it, or let its thread
            `wait` for a lease at most.
        on_unavailable: When too few lock servers answer: `run` without a lock, but with record
            and token, `defer`, or `fail` as if the actor had raised.
        key_prefix: Another one keeps its keys apart.

    Raises:
        InvalidIdempotency: An option, its value and what is allowed.
    """

    def __init__(
        self,
        masters: Sequence[str | redis.Redis] | Masters | None = None,
        *,
        ttl: int = DEFAULT_TTL_MS,
        lease: int = DEFAULT_LEASE_MS,
        on_duplicate: str = OnDuplicate.SKIP.value,
        on_busy: str = OnBusy.DEFER.value,
        on_unavailable: str = OnUnavailable.RUN.value,
        key_prefix: str = DEFAULT_PREFIX,
    ) -> None:
        # pottery changes json.dumps when it is imported: only for those who use this.
        from .redlock import checked_lease

        self.logger = get_logger(__name__, type(self))
        self.options = IdempotencyOptions.of(
            ttl=ttl,
            lease=lease,
            on_duplicate=on_duplicate,
            on_busy=on_busy,
            on_unavailable=on_unavailable,
            key_prefix=key_prefix,
        )
        # Made again for a broker, whose events it tells; here only to find what is wrong with it.
        tried = OWN_SERVER if masters is None else masters
        try:
            checked_lease(lease, tried if isinstance(tried, Masters) else Masters(tried))
        except InvalidOption as error:
            raise InvalidIdempotency(str(error)) from error
        self._masters = masters
        self._requests = Requests(self.options)
        #: Of each process and broker.
        self._claimants: dict[tuple[int, int], Claimant] = {}
        self._workers: Counter[int] = Counter()
        self._is_stopping = threading.Event()
        self._holds: dict[Entry, Hold] = {}

    @property
    def actor_options(self) -> set[str]:
        """The options that an actor may have."""
        return {KEY, TTL, INTERRUPT}

    def check_message_options(self, options: Mapping[str, object], *, lease_ms: int) -> None:
        """Check the options of a message, where it is sent and before it is run."""
        self._requests.check_message(options, lease_ms=lease_ms)

    def before_declare_actor(self, broker: Broker, actor: Actor[Any, Any]) -> None:
        """Check the key of *actor*.

        Raises:
            InvalidIdempotency: It is no key, or names an argument that there is not.
        """
        self._requests.declare(actor, lease_ms=_lease_ms(broker))

    def before_worker_boot(self, broker: Broker, worker: Any) -> None:
        """Check the broker, before any message is run.

        Raises:
            InvalidIdempotency: The middleware stands in the wrong place, its records are kept too
                short, or there are no results to replay.
        """
        check_place(broker.middleware, self)
        self._requests.checked_ttl(self.options.ttl_ms, lease_ms=_lease_ms(broker), name="ttl")
        is_replaying = self.options.on_duplicate is OnDuplicate.REPLAY
        if is_replaying and results_of(broker.middleware) is None:
            raise InvalidIdempotency("on_duplicate='replay' needs the middleware Results.")
        self._workers[id(broker)] += 1
        self._is_stopping.clear()

    def before_worker_shutdown(self, broker: Broker, worker: Any) -> None:
        """Let no thread wait for a key any more."""
        self._is_stopping.set()

    def after_worker_shutdown(self, broker: Broker, worker: Any) -> None:
        """Let everything go."""
        self._workers[id(broker)] -= 1
        if self._workers[id(broker)] <= 0:
            claimant = self._claimants.pop(_of_this_process(broker), None)
            if claimant is not None:
                claimant.close()

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        """Claim the key of *message*, if it has one.

        Raises:
            SkipMessage: It is not to be run, or not now.
            MiddlewareError: It has failed.
        """
        set_claim(None)
        if not isinstance(message, DeliveredMessage):
            return
        if (claimant := self._claimants.get(_of_this_process(broker))) is not None:
            claimant.begin()
        try:
            request = self._requests.of(broker, message)
            if request is not None:
                self._refusals(broker).check_deliveries(message, key=request.key)
                self._run_or_refuse(broker, message, request)
        except MiddlewareError:
            raise
        except BrokerConnectionError as error:
            self._claimant_of(broker).record_trouble.warn(
                "Messages with keys wait until their records can be reached, from %s on: %s",
                message,
                error,
            )
            self._refusals(broker).defer_unreachable(message)
        except Exception as error:  # otherwise dramatiq would run it, without its key
            raise NotClaimed(f"The key of {message} could not be claimed: {error}") from error

    def after_process_message(
        self,
        broker: Broker,
        message: MessageProxy,
        *,
        result: Any = None,
        exception: BaseException | None = None,
    ) -> None:
        """Note that the key is done, or has failed; what the message causes is enqueued by now."""
        set_claim(None)
        hold = self._taken(message)
        if hold is None or not isinstance(message, DeliveredMessage):
            return
        claimant = self._claimant_of(broker)
        if exception is not None or message.failed or message.must_stay:
            claimant.fail(hold)
            return
        replays = None
        if self.options.on_duplicate is OnDuplicate.REPLAY:
            replays = Replays.of(broker, message)
        kept = None if replays is None else replays.encode(result)
        self._complete(claimant, hold, message, kept)

    def after_skip_message(self, broker: Broker, message: MessageProxy) -> None:
        """Let go what another middleware has skipped after it was claimed."""
        self._let_go(broker, message)

    def before_ack(self, broker: Broker, message: MessageProxy) -> None:
        """Let go what is still held: an interrupt has cut short what follows an actor."""
        self._let_go(broker, message)

    def before_nack(self, broker: Broker, message: MessageProxy) -> None:
        """As `before_ack`."""
        self._let_go(broker, message)

    def _run_or_refuse(self, broker: Broker, message: DeliveredMessage, request: Request) -> None:
        claimant = self._claimant_of(broker)
        interrupts = wants_interrupt(broker, message)
        deadline_ms = clock.monotonic_ms() + self.options.lease_ms
        while True:
            claim = claimant.claim(request, queue_name=message.queue_name, interrupts=interrupts)
            if isinstance(claim, Hold):
                forget_deferrals(message)
                self._holds[message.entry] = claim
                set_claim(claim)
                return
            is_waiting = isinstance(claim, Busy) and self.options.on_busy is OnBusy.WAIT
            is_over = self._is_stopping.is_set() or clock.monotonic_ms() >= deadline_ms
            if not is_waiting or is_over:
                self._refusals(broker).refuse(message, claim, key=request.key)
            self._is_stopping.wait(POLL_MS / 1000)

    def _complete(
        self, claimant: Claimant, hold: Hold, message: DeliveredMessage, kept: bytes | None
    ) -> None:
        def complete() -> None:
            try:
                claimant.complete(hold, kept)
            except BrokerConnectionError:
                raise
            except StreamsError as error:
                message.must_stay = True
                self.logger.error("Key %r cannot be completed: %s", hold.request.key, error)

        try:
            complete()
        except BrokerConnectionError as error:
            # Acknowledged only when it is noted: otherwise a duplicate would run again.
            message.owed = complete
            self.logger.warning("Key %r will be completed later: %s", hold.request.key, error)

    def _let_go(self, broker: Broker, message: MessageProxy) -> None:
        hold = self._taken(message)
        if hold is not None:
            set_claim(None)
            self._claimant_of(broker).fail(hold)

    def _refusals(self, broker: Broker) -> Refusals:
        return Refusals(_streams(broker), self.options)

    def _taken(self, message: MessageProxy) -> Hold | None:
        is_ours = isinstance(message, DeliveredMessage)
        return self._holds.pop(message.entry, None) if is_ours else None

    def _claimant_of(self, broker: Broker) -> Claimant:
        # No lock: a fork could copy it while it is held. `setdefault` is atomic.
        place = _of_this_process(broker)
        found = self._claimants.get(place)
        if found is None:
            found = self._claimants.setdefault(place, self._made(_streams(broker)))
        return found

    def _made(self, broker: Streams) -> Claimant:
        executor = Executor(broker.client.connection_pool, events=broker.events)
        records = Records(executor, namespace=broker.namespace, prefix=self.options.key_prefix)
        servers = [broker.client] if self._masters is None else self._masters
        masters = servers if isinstance(servers, Masters) else Masters(servers)
        masters = masters.heard_by(broker.events)
        return Claimant(records, masters, options=self.options, events=broker.events)


def _streams(broker: Broker) -> Streams:
    """*broker*, which delivers a `DeliveredMessage`: only a `StreamsBroker` does."""
    return cast(Streams, broker)


def _of_this_process(broker: Broker) -> tuple[int, int]:
    return os.getpid(), id(broker)


def _lease_ms(broker: Broker) -> int:
    """The lease of *broker*'s messages; 0 of another broker, which has none."""
    options = getattr(broker, "options", None)
    return options.lease_ms if isinstance(options, BrokerOptions) else 0
